"""Our own numbers as tables: results with the random and the optimal row, intervals, who is ahead of whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from cbr_open.results import without_share
from cbr_report.comparable import (
    baselines,
    budgets_differ,
    handicap_marks,
    not_alike,
    protocol_marks,
    random_name,
    remarks,
)
from cbr_report.measures import (
    Measure,
    in_points,
    interval_of_plays,
    main_measure,
    measures_of,
    points,
    random_measures,
    split_measures,
    splits_of,
)
from cbr_report.runs import Group, Run, by_place, number_at
from cbr_report.statistics import LEVEL, probability_of_improvement, summarize
from cbr_report.tables import NOTHING, columns, interval, mean_std, middle, number, text_columns
from cbrcore import Column, Table

Rows = tuple[tuple[str, ...], ...]


def result_tables(groups: Sequence[Group]) -> list[Table]:
    """The numbers themselves, one table for each way to play; `groups` are named and stand place by place."""
    shares = [group for group in groups if not in_points(group)]
    raw = [group for group in groups if in_points(group)]
    return [*([_shares(shares)] if shares else []), *_other_modes(shares), *([_points(raw)] if raw else [])]


def comparison_tables(groups: Sequence[Group]) -> list[Table]:
    """What can be said about the numbers: intervals, who is ahead of whom, what pretraining did."""
    apart = (*_by_game(groups), *_cases(groups))
    return [_intervals(groups), *apart, *_improvements(groups), *_pretraining(groups)]


def measures_in(table: Table, groups: Sequence[Group]) -> dict[Group, list[Measure]]:
    """The measures that a table of `result_tables` is about, for each group in it."""
    if table.id == "points":
        return {group: points() for group in groups if in_points(group)}
    mode = table.id.removeprefix("results").removeprefix("_")
    shares = [group for group in groups if not in_points(group)]
    return {group: [m for split in group.splits for m in split_measures(split, mode)] for group in shares}


def _head(groups: Sequence[Group]) -> tuple[Column, ...]:
    """The first columns of a table of agents: who it is, and what of it is not the same for all."""
    return (
        *text_columns("Games", kind="text group"),
        *text_columns("Agent"),
        *(text_columns("Training", kind="text group") if budgets_differ(groups) else ()),
        *(text_columns("Protocol", kind="text group") if protocol_marks(groups) else ()),
        *(text_columns("Handicaps") if handicap_marks(groups) else ()),
        Column("Runs"),
    )


def _start(group: Group, groups: Sequence[Group]) -> tuple[str, ...]:
    training = (group.budget,) if budgets_differ(groups) else ()
    marks = (found[group] for found in (protocol_marks(groups), handicap_marks(groups)) if found)
    return (group.place, group.agent, *training, *marks, str(len(group.runs)))


def _measured(wanted: Sequence[Measure]) -> tuple[Column, ...]:
    return tuple(Column(measure.title, f"ours {measure.better}") for measure in wanted)


def _shares(groups: Sequence[Group]) -> Table:
    splits = splits_of(groups)
    wanted = [measure for split in splits for measure in split_measures(split)]
    nothing = [NOTHING for _ in _head(groups)[2:]]
    rows = []
    for place, same in by_place(groups):
        rows += [(*_start(group, groups), *_cells(group, wanted)) for group in same]
        random = [measure for split in splits for measure in split_measures(split, "random")]
        everyone = baselines(same)
        for each in everyone:
            rows.append((place, random_name(each, everyone), *nothing, *_cells(each.runs, random)))
        if (optimal := _optimal(same, splits)) is not None:
            rows.append((place, "optimal", *nothing, *optimal))
    return Table(
        "results",
        "Results",
        (*_head(groups), *_measured(wanted)),
        tuple(rows),
        note="Mean ± standard deviation over runs that differ in their seed alone; weights and memory are frozen."
        f" The best mean is marked. {_mode(groups)}".rstrip(),
        remarks=(*remarks(groups), *_without_share(groups)),
    )


def _mode(groups: Sequence[Group]) -> str:
    modes = {
        str(evaluation["mode"])
        for group in groups
        for evaluation in group.runs[0].results["evaluation"].values()
        if "mode" in evaluation
    }
    return f"Actions of the neural agent: {', '.join(sorted(modes))}." if modes else ""


def _cells(group: Group, wanted: Sequence[Measure]) -> list[str]:
    return [mean_std(measure.summary(group), measure.digits) + _of_some(group, measure) for measure in wanted]


def _of_some(group: Group, measure: Measure) -> str:
    """Over how many games a mean is that is not over all of them."""
    games = group.results_at(*measure.keys[:-2], "games")
    count = sum(each.get(measure.keys[-2]) is not None for each in games.values())
    partial = measure.keys[-2] == "norm_score" and 0 < count < len(games)
    return f" ({count} of {len(games)} games)" if partial else ""


def _without_share(groups: Sequence[Group]) -> Iterator[str]:
    """Which games have no normalized score, and why."""
    for place, same in by_place(groups):
        first = same[0]
        for split in first.splits:
            games = first.results_at("protocol", "games", split)
            for words in without_share(split, first.results_at("evaluation", split, "games"), games):
                yield f"{place}: {words}"


def _optimal(groups: Sequence[Group], splits: Sequence[str]) -> list[str] | None:
    """Steps of the shortest solutions, all of them where runs differ, and all points."""
    steps = {
        split: dict.fromkeys(
            number(found, 2) for group in groups for found in group.numbers("evaluation", split, "optimal_steps")
        )
        for split in splits
    }
    if not any(steps.values()):
        return None
    shares = {
        split: "1.00"
        if any(measure.of(group) for group in groups for measure in split_measures(split)[1:])
        else NOTHING
        for split in splits
    }
    return [
        text
        for split, found in steps.items()
        for text in ([" / ".join(found), shares[split]] if found else [NOTHING] * 2)
    ]


def _other_modes(groups: Sequence[Group]) -> Iterator[Table]:
    """The modes of play beside the main one."""
    splits = splits_of(groups)
    for mode in ("sampled", "greedy"):
        wanted = [measure for split in splits for measure in split_measures(split, mode)]
        rows = tuple(
            (*_start(group, groups), *_cells(group, wanted))
            for group in groups
            if any(measure.of(group) for measure in wanted)
        )
        if rows:
            yield Table(
                f"results_{mode}",
                f"The same agents, {mode}",
                (*_head(groups), *_measured(wanted)),
                rows,
                remarks=remarks(groups),
            )


def _points(groups: Sequence[Group]) -> Table:
    rows = tuple((*_start(group, groups), *_cells(group, points()), *_facts(group)) for group in groups)
    return Table(
        "points",
        "Scores while training",
        (
            *_head(groups),
            *_measured(points()),
            *columns(["Initial", "Uniform random", "Maximum"]),
        ),
        rows,
        note="Raw points: mean ± standard deviation over runs of the mean over the last 100 training episodes,"
        " which is the paper's measure, and of the best episode. The best mean is marked.",
        remarks=remarks(groups),
    )


def _facts(group: Group) -> list[str]:
    """Initial, uniform random and largest score of the one game; a dash where there are several."""
    games = list(group.runs[0].results.get("protocol", {}).get("games", {}).get("train", {}).values())
    only = games[0] if len(games) == 1 else {}
    random = next((found for split in group.splits if (found := _random(group, split))), [])
    return [
        number(only.get("initial_score"), 0),
        mean_std(summarize(random), 2),
        number(only.get("max_score"), 0),
    ]


def _random(group: Group, split: str) -> list[float]:
    return group.numbers("evaluation", split, "random", "score", "mean")


LISTED = 12
"""Of so many games at most each game's steps are listed."""


def _by_game(groups: Sequence[Group]) -> Iterator[Table]:
    """Steps of each game: a mean over games hides that three take 2 and one takes 30."""
    rows = []
    for group in groups:
        for split in group.splits:
            steps = sorted(_steps_of_games(group, split))
            if len(steps) > 1:
                listed = ", ".join(number(each, 1) for each in steps) if len(steps) <= LISTED else NOTHING
                ends = (number(steps[0], 1), number(steps[-1], 1))
                runs = str(len(group.runs))
                rows.append((group.place, group.agent, split.upper(), runs, str(len(steps)), *ends, listed))
    if rows:
        yield Table(
            "by_game",
            "Steps by game",
            (
                *text_columns("Games", kind="text group"),
                *text_columns("Agent", "Split"),
                *columns(["Runs", "Games played", "Fewest", "Most"]),
                *text_columns("Each game"),
            ),
            tuple(rows),
            note="Mean steps of each game over its plays and over runs, in ascending order.",
        )


def _steps_of_games(group: Group, split: str) -> Iterator[float]:
    for game in group.results_at("evaluation", split, "games"):
        if found := group.numbers("evaluation", split, "games", game, "steps"):
            yield fmean(found)


KEPT = (
    ("Cases", ("training", "memory_size"), 1),
    ("Prototypes", ("training", "facts", "memory", "prototypes"), 1),
    ("Wrong tries", ("training", "facts", "memory", "wrong_tries"), 2),
)
"""Title, where results.json has it, digits."""


def _cases(groups: Sequence[Group]) -> Iterator[Table]:
    """What the memories hold."""
    rows = []
    for group in groups:
        cells = [mean_std(summarize(group.numbers(*keys)), digits) for _, keys, digits in KEPT]
        if group.uses_cases and cells[0] != NOTHING:
            perplexity = [last for run in group.runs if (last := _last(run, "code_perplexity")) is not None]
            codes = mean_std(summarize(perplexity), 1)
            rows.append((group.place, group.agent, str(len(group.runs)), *cells[:2], codes, cells[2]))
    if rows:
        cases, prototypes, tries = (title for title, *_ in KEPT)
        yield Table(
            "cases",
            "What the memories hold",
            (
                *text_columns("Games", kind="text group"),
                *text_columns("Agent"),
                *columns(["Runs", cases, prototypes, "Code perplexity", tries]),
            ),
            tuple(rows),
            note="At the end of the training. Prototypes: different keys that answer, several cases may share one."
            " Code perplexity: as many equally used codes would tell as much. Wrong tries: how many wrong goals an"
            " object costs by cases of other games alone (cross-validated; goal cases).",
        )


def _last(run: Run, key: str) -> float | None:
    """The number in the last row of metrics.jsonl."""
    return number_at(run.metrics[-1], [key]) if run.metrics else None


def _intervals(groups: Sequence[Group]) -> Table:
    rows = []
    for group in groups:
        for measure in measures_of(group):
            found, digits = measure.summary(group), measure.digits
            if found is not None:
                numbers = (mean_std(found, digits), middle(found, digits), interval(found, digits))
                *start, _ = _start(group, groups)
                rows.append((*start, measure.title, str(found.runs), *numbers))
    for place, same in by_place(groups):
        rows += _random_intervals(place, same, groups)
    percent = f"{LEVEL:.0%}".replace("%", " %")
    return Table(
        "intervals",
        "Interquartile means and intervals",
        (
            *_head(groups)[:-1],
            *text_columns("Measure"),
            *columns(["Runs", "Mean ± std", "Interquartile mean", f"{percent} interval"]),
        ),
        tuple(rows),
        note="The interquartile mean leaves out a quarter of the runs at each end; it needs four runs. Intervals:"
        " percentile bootstrap over runs of that mean (of the mean of three runs), with a fixed seed; they need"
        " three runs. That of the uniform random agent is of the mean over its plays.",
        remarks=remarks(groups),
    )


def _random_intervals(place: str, same: Sequence[Group], groups: Sequence[Group]) -> Iterator[tuple[str, ...]]:
    """The uniform random agent's, where its plays are enough for one."""
    nothing = [NOTHING for _ in _head(groups)[2:-1]]
    everyone = baselines(same)
    for each in everyone:
        for measure in random_measures(each.runs):
            if (found := interval_of_plays(each.runs, measure)) is not None:
                summary, digits = measure.summary(each.runs), measure.digits
                shown = f"[{number(found[0], digits)}, {number(found[1], digits)}]"
                numbers = (str(len(each.runs.runs)), mean_std(summary, digits), NOTHING, shown)
                yield (place, random_name(each, everyone), *nothing, measure.title, *numbers)


def _improvements(groups: Sequence[Group]) -> Iterator[Table]:
    """One square per place: row against column."""
    for position, (place, same) in enumerate(by_place(groups)):
        if len(same) > 1:
            measure = main_measure(same[0])
            yield Table(
                f"improvement_{position}",
                f"Probability of improvement, {place}",
                (*text_columns("P(row better than column)"), *columns(_marked(same))),
                _square(same, measure),
                note=f"{measure.title}, {measure.better} is better: the share of all pairs of runs in which the"
                " agent of the row is ahead of the agent of the column; a tie counts half. It needs two runs of"
                " each.",
                remarks=tuple(not_alike(place, same)),
            )


def _square(groups: Sequence[Group], measure: Measure) -> Rows:
    def cell(row: Group, column: Group) -> str:
        chance = probability_of_improvement(measure.of(row), measure.of(column), better=measure.better)
        return NOTHING if row is column else number(chance, 2)

    return tuple(
        (name, *(cell(row, column) for column in groups))
        for name, row in zip(_marked(groups), groups, strict=True)
    )


def _marked(groups: Sequence[Group]) -> list[str]:
    """The agents, with what tells that they were not measured alike."""
    kinds = [found for found in (protocol_marks(groups), handicap_marks(groups)) if found]
    marks = [", ".join(found[group] for found in kinds) for group in groups]
    return [f"{group.agent} [{mark}]" if mark else group.agent for group, mark in zip(groups, marks, strict=True)]


PAIRS = {
    "same": "Same template",
    "different": "Different templates",
    "failed": "Same template, one without reward",
}
"""Key of a pair in results.json -> its title; all others are of two rewarded actions."""


def _pretraining(groups: Sequence[Group]) -> Iterator[Table]:
    """How similar pairs of actions are before and after pretraining [P §5]."""
    keys = [(when, kind) for kind in PAIRS for when in ("before", "after")]
    rows = []
    for group in groups:
        cells = [_similarity(group, when, kind) for when, kind in keys]
        if set(cells) != {NOTHING}:
            rows.append((group.place, group.agent, str(len(group.runs)), *cells))
    if rows:
        yield Table(
            "pretraining",
            "Pretraining of the retriever",
            (
                *text_columns("Games", "Agent"),
                Column("Runs"),
                *columns([f"{PAIRS[kind]}, {when}" for when, kind in keys]),
            ),
            tuple(rows),
            note="Mean similarity of the contexts of two rewarded actions of the experience that the retriever was"
            " pretrained with. What can be reused should be near, what cannot far; tau lies between.",
        )


def _similarity(group: Group, when: str, kind: str) -> str:
    return mean_std(summarize(group.numbers("training", "pretraining", when, kind)), 2)
