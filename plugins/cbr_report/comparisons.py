"""What can be said about our own numbers: intervals, who is ahead of whom, what pretraining did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from cbr_report.comparable import (
    baselines,
    handicap_marks,
    not_alike,
    protocol_marks,
    random_name,
    remarks,
)
from cbr_report.measures import (
    Measure,
    interval_of_plays,
    main_measure,
    measures_of,
    random_measures,
)
from cbr_report.results import head, start
from cbr_report.runs import Group, Run, by_place, number_at
from cbr_report.statistics import LEVEL, probability_of_improvement, summarize
from cbr_report.tables import NOTHING, columns, interval, mean_std, middle, number, text_columns
from cbrcore import Column, Table

Rows = tuple[tuple[str, ...], ...]


def comparison_tables(groups: Sequence[Group]) -> list[Table]:
    """What can be said about the numbers: intervals, who is ahead of whom, what pretraining did."""
    apart = (*_by_game(groups), *_cases(groups))
    return [_intervals(groups), *apart, *_improvements(groups), *_pretraining(groups)]


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
                *first, _ = start(group, groups)
                rows.append((*first, measure.title, str(found.runs), *numbers))
    for place, same in by_place(groups):
        rows += _random_intervals(place, same, groups)
    percent = f"{LEVEL:.0%}".replace("%", " %")
    return Table(
        "intervals",
        "Interquartile means and intervals",
        (
            *head(groups)[:-1],
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
    nothing = [NOTHING for _ in head(groups)[2:-1]]
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
