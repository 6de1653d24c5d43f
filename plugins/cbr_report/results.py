"""Our own numbers as tables: results with the random and the optimal row, scores by their protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cbr_open.results import without_share
from cbr_report.comparable import (
    baselines,
    budgets_differ,
    handicap_marks,
    protocol_marks,
    random_name,
    remarks,
)
from cbr_report.measures import (
    Measure,
    by_evaluation,
    in_points,
    points,
    split_measures,
    splits_of,
)
from cbr_report.runs import Group, by_place
from cbr_report.statistics import summarize
from cbr_report.tables import NOTHING, columns, mean_std, number, text_columns
from cbrcore import Column, Table


def result_tables(groups: Sequence[Group]) -> list[Table]:
    """The numbers themselves, one table for each way to play; `groups` are named and stand place by place."""
    shares = [group for group in groups if not in_points(group)]
    scores = [_points(*told, same) for told in POINTS if (same := _raw(groups, told[0]))]
    return [*([_shares(shares)] if shares else []), *_other_modes(shares), *scores]


def measures_in(table: Table, groups: Sequence[Group]) -> dict[Group, list[Measure]]:
    """The measures that a table of `result_tables` is about, for each group in it."""
    for name, *_ in POINTS:
        if table.id == name:
            return {group: points(group) for group in _raw(groups, name)}
    mode = table.id.removeprefix("results").removeprefix("_")
    shares = [group for group in groups if not in_points(group)]
    return {group: [m for split in group.splits for m in split_measures(split, mode)] for group in shares}


def head(groups: Sequence[Group]) -> tuple[Column, ...]:
    """The first columns of a table of agents: who it is, and what of it is not the same for all."""
    return (
        *text_columns("Games", kind="text group"),
        *text_columns("Agent"),
        *(text_columns("Training", kind="text group") if budgets_differ(groups) else ()),
        *(text_columns("Protocol", kind="text group") if protocol_marks(groups) else ()),
        *(text_columns("Handicaps") if handicap_marks(groups) else ()),
        Column("Runs"),
    )


def start(group: Group, groups: Sequence[Group]) -> tuple[str, ...]:
    training = (group.budget,) if budgets_differ(groups) else ()
    marks = (found[group] for found in (protocol_marks(groups), handicap_marks(groups)) if found)
    return (group.place, group.agent, *training, *marks, str(len(group.runs)))


def _measured(wanted: Sequence[Measure]) -> tuple[Column, ...]:
    return tuple(Column(measure.title, f"ours {measure.better}") for measure in wanted)


def _shares(groups: Sequence[Group]) -> Table:
    splits = splits_of(groups)
    wanted = [measure for split in splits for measure in split_measures(split)]
    nothing = [NOTHING for _ in head(groups)[2:]]
    rows = []
    for place, same in by_place(groups):
        rows += [(*start(group, groups), *_cells(group, wanted)) for group in same]
        random = [measure for split in splits for measure in split_measures(split, "random")]
        everyone = baselines(same)
        for each in everyone:
            rows.append((place, random_name(each, everyone), *nothing, *_cells(each.runs, random)))
        if (optimal := _optimal(same, splits)) is not None:
            rows.append((place, "optimal", *nothing, *optimal))
    return Table(
        "results",
        "Results",
        (*head(groups), *_measured(wanted)),
        tuple(rows),
        note="Mean ± standard deviation over runs that differ in their seed alone; weights and memory are frozen."
        f" {_marked(groups)} {_mode(groups)}".rstrip(),
        remarks=(*remarks(groups), *_without_share(groups)),
    )


def _marked(groups: Sequence[Group]) -> str:
    alike = " among agents of one budget" if budgets_differ(groups) else ""
    return f"The best mean is marked{alike}."


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
            (*start(group, groups), *_cells(group, wanted))
            for group in groups
            if any(measure.of(group) for measure in wanted)
        )
        if rows:
            yield Table(
                f"results_{mode}",
                f"The same agents, {mode}",
                (*head(groups), *_measured(wanted)),
                rows,
                remarks=remarks(groups),
            )


EVALUATED = "points_p2"
LAST = 100
"""Over so many training episodes at the end a score is the mean."""
POINTS = (
    (
        "points",
        "Scores while training",
        "the mean over the last 100 training episodes, which is the paper's measure, and of the best episode",
    ),
    (
        EVALUATED,
        "Scores in the evaluation (P2)",
        "the mean over the plays of the evaluation, with seeds that were never trained on, and of the best episode"
        " while training",
    ),
)
"""Id, title, what is measured: of the table of scores while training, and of those of an evaluation."""


def _raw(groups: Sequence[Group], name: str) -> list[Group]:
    """Those that a table of scores is about."""
    return [group for group in groups if in_points(group) and by_evaluation(group) == (name == EVALUATED)]


def _points(name: str, title: str, measured: str, groups: Sequence[Group]) -> Table:
    rows = tuple((*start(group, groups), *_cells(group, points(group)), *_facts(group)) for group in groups)
    return Table(
        name,
        title,
        (
            *head(groups),
            *_measured(points(groups[0])),
            *columns(["Initial", "Uniform random", "Maximum"]),
        ),
        rows,
        note=f"Raw points: mean ± standard deviation over runs of {measured}. {_marked(groups)}",
        remarks=(*remarks(groups), *_fewer_episodes(groups)),
    )


def _fewer_episodes(groups: Sequence[Group]) -> Iterator[str]:
    """Where a mean over the last 100 episodes is one over all that there were."""
    for group in groups:
        fewest = min(group.numbers("training", "episodes"), default=LAST)
        if not by_evaluation(group) and fewest < LAST:
            yield f"{group.place}: {group.agent} has {fewest:.0f} training episodes: its mean is over all of them"


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
