"""Our own numbers as tables: results with the random and the optimal row, intervals, who is ahead of whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from cbrcore.report.measures import (
    Measure,
    in_points,
    main_measure,
    measures_of,
    points,
    split_measures,
    splits_of,
)
from cbrcore.report.runs import Group, one_per_seed
from cbrcore.report.statistics import LEVEL, probability_of_improvement, summarize
from cbrcore.report.tables import NOTHING, Column, Table, columns, interval, mean_std, number, text_columns

Rows = tuple[tuple[str, ...], ...]


def result_tables(groups: Sequence[Group]) -> list[Table]:
    """All tables of our own numbers; `groups` are named and stand place by place."""
    shares = [group for group in groups if not in_points(group)]
    raw = [group for group in groups if in_points(group)]
    tables = [*([_shares(shares)] if shares else []), *_other_modes(shares), *([_points(raw)] if raw else [])]
    return [*tables, _intervals(groups), *_improvements(groups), *_pretraining(groups)]


def by_place(groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    """(place, its groups), in order."""
    for place, same in groupby(groups, key=lambda group: group.place):
        yield place, list(same)


def _shares(groups: Sequence[Group]) -> Table:
    splits = splits_of(groups)
    wanted = [measure for split in splits for measure in split_measures(split)]
    rows = []
    for place, same in by_place(groups):
        rows += [(place, g.agent, str(len(g.runs)), *_cells(g, wanted)) for g in same]
        everyone = one_per_seed(run for group in same for run in group.runs)
        random = [measure for split in splits for measure in split_measures(split, "random")]
        rows.append((place, "uniform random", NOTHING, *_cells(everyone, random)))
        if (optimal := _optimal(everyone, splits)) is not None:
            rows.append((place, "optimal", NOTHING, *optimal))
    return Table(
        "results",
        "Results",
        (*text_columns("Games", "Agent"), Column("Runs"), *columns([m.title for m in wanted], "ours")),
        tuple(rows),
        note=f"Mean ± standard deviation over runs that differ in their seed alone; weights and memory are frozen."
        f" {_mode(groups)}",
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
    return [mean_std(measure.summary(group), measure.digits) for measure in wanted]


def _optimal(group: Group, splits: Sequence[str]) -> list[str] | None:
    """Steps of the shortest solutions, and all points."""
    steps = {split: group.numbers("evaluation", split, "optimal_steps") for split in splits}
    if not any(steps.values()):
        return None
    return [
        text for found in steps.values() for text in ([number(found[0], 2), "1.00"] if found else [NOTHING] * 2)
    ]


def _other_modes(groups: Sequence[Group]) -> Iterator[Table]:
    """The modes of play beside the main one."""
    splits = splits_of(groups)
    for mode in ("sampled", "greedy"):
        wanted = [measure for split in splits for measure in split_measures(split, mode)]
        rows = tuple(
            (group.place, group.agent, str(len(group.runs)), *_cells(group, wanted))
            for group in groups
            if any(measure.of(group) for measure in wanted)
        )
        if rows:
            yield Table(
                f"results_{mode}",
                f"The same agents, {mode}",
                (*text_columns("Games", "Agent"), Column("Runs"), *columns([m.title for m in wanted], "ours")),
                rows,
            )


def _points(groups: Sequence[Group]) -> Table:
    rows = tuple(
        (group.place, group.agent, str(len(group.runs)), *_cells(group, points()), *_facts(group))
        for group in groups
    )
    return Table(
        "points",
        "Scores while training",
        (
            *text_columns("Game", "Agent"),
            Column("Runs"),
            *columns([measure.title for measure in points()], "ours"),
            *columns(["Initial", "Uniform random", "Maximum"]),
        ),
        rows,
        note="Raw points: mean ± standard deviation over runs of the mean over the last 100 training episodes,"
        " which is the paper's measure, and of the best episode.",
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


def _intervals(groups: Sequence[Group]) -> Table:
    rows = []
    for group in groups:
        for measure in measures_of(group):
            found, digits = measure.summary(group), measure.digits
            if found is not None:
                cells = (str(found.runs), mean_std(found, digits), number(found.iqm, digits))
                rows.append((group.place, group.agent, measure.title, *cells, interval(found, digits)))
    percent = f"{LEVEL:.0%}".replace("%", " %")
    return Table(
        "intervals",
        "Interquartile means and intervals",
        (
            *text_columns("Games", "Agent", "Measure"),
            *columns(["Runs", "Mean ± std", "Interquartile mean", f"{percent} interval"]),
        ),
        tuple(rows),
        note="The interquartile mean leaves out a quarter of the runs at each end (none of fewer than four)."
        " Intervals: percentile bootstrap over runs, with a fixed seed. A single run has none.",
    )


def _improvements(groups: Sequence[Group]) -> Iterator[Table]:
    """One square per place: row against column."""
    for position, (place, same) in enumerate(by_place(groups)):
        if len(same) > 1:
            measure = main_measure(same[0])
            yield Table(
                f"improvement_{position}",
                f"Probability of improvement, {place}",
                (*text_columns("P(row better than column)"), *columns([group.agent for group in same])),
                _square(same, measure),
                note=f"{measure.title}, {measure.better} is better: the share of all pairs of runs in which the"
                " agent of the row is ahead of the agent of the column; a tie counts half.",
            )


def _square(groups: Sequence[Group], measure: Measure) -> Rows:
    def cell(row: Group, column: Group) -> str:
        chance = probability_of_improvement(measure.of(row), measure.of(column), better=measure.better)
        return NOTHING if row is column else number(chance, 2)

    return tuple((row.agent, *(cell(row, column) for column in groups)) for row in groups)


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
