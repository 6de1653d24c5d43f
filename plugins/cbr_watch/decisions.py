"""Single decisions of trained agents: a case that is reused, and a fallback to the neural agent [P Fig. 3].

The run is opened and plays again what its evaluation measured first, weights and memory frozen; of these plays the
most telling decision of each kind is kept, with the similarities that the retriever compared with tau.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cbr_open.explanations import Explanation
from cbr_report.measures import main_measure
from cbr_report.runs import Group, Runs, by_place
from cbrcore.errors import CbrError
from cbrcore.types import Action, Candidate, Observation, arity

if TYPE_CHECKING:  # torch is loaded for a run that is played, not for every page
    from cbr_open.compared import Compared
    from cbr_open.door import Run
    from cbr_watch.watching import Start, Step
    from cbrcore.cycle.reasoner import CaseBasedReasoner

REUSE, FALLBACK = "reuse", "fallback"
KINDS = {REUSE: "a case is reused", FALLBACK: "the neural agent is asked although there are cases"}
PLACES = 2
"""Runs that are opened for a page, each of another place."""
PLAYS, STEPS = 5, 200
"""Game plays and steps of a run that are looked through."""
ROWS, COLUMNS = 8, 12
"""Cases and contexts that a figure shows."""

Rank = tuple[int, ...]
"""How telling a decision is: the larger, the more."""


@dataclass(frozen=True)
class Example:
    """A decision, with all that was compared for it.

    Attributes:
        kind: REUSE or FALLBACK.
        compared: all cases with all contexts of the step.
        tau: the retriever's threshold.
    """

    group: Group
    kind: str
    step: Step
    compared: Compared
    tau: float

    @cached_property
    def candidates(self) -> dict[tuple[int, int], Candidate]:
        """(row of a case, column of a context) -> what was retrieved there. Actions that share a context but not
        their entities may have a candidate each; then it is the chosen one, else one that is admissible."""
        decision = self.step.decision
        rows = {case.id: row for row, case in enumerate(self.compared.cases)}
        columns = {context: column for column, context in enumerate(self.compared.contexts)}
        ordered = sorted(decision.candidates, key=lambda c: (c is decision.chosen, c.verdict == "admissible"))
        return {(rows[each.match.case.id], columns[each.seeds]): each for each in ordered if each.seeds}

    @property
    def chosen(self) -> tuple[int, int] | None:
        """Where what was done was retrieved."""
        chosen = self.step.decision.chosen
        return next((cell for cell, each in self.candidates.items() if each is chosen), None)

    def left_aside(self, row: int, column: int) -> str | None:
        """Why a case above tau was not retrieved for a context; None if it was, or is not above tau."""
        value, case = self.compared.values[row, column], self.compared.cases[row]
        if not value > self.tau or (row, column) in self.candidates:
            return None
        if arity(case.template) not in self.compared.arities[column]:
            return "takes another number of entities"
        if value < self.compared.values[:, column].max():
            return "another case is more similar to this context"
        return "another case that is as similar is preferred"


def decision_examples(runs: Runs) -> list[Example]:
    """At most one of each kind for a place, and few places; what is in the way is noted."""
    found: list[Example] = []
    for group in looked_at(runs.groups):
        path = group.runs[0].path
        try:
            examples, missing = examples_of(group, runs)
        except CbrError as error:
            runs.notes.append(f"{path}: no decisions: {error.message}")
        except Exception as error:  # whatever a plugin's part does: a figure must not cost the page
            runs.notes.append(f"{path}: no decisions: {type(error).__name__}: {error}")
        else:
            found += examples
            runs.notes += [f"{path}: {words}" for words in missing]
    return found


def looked_at(groups: Sequence[Group]) -> list[Group]:
    """The best agent with a case memory of each place; of many places the first ones, each benchmark before any
    has a second place. In the order of the report."""
    best = [
        max(fitting, key=_goodness)
        for _, same in by_place(groups)
        if (fitting := [group for group in same if group.uses_cases])
    ]
    benchmarks = {str(group.settings.get("environment.use")): group for group in reversed(best)}
    ahead = [group for group in best if group in benchmarks.values()]
    taken = [*ahead, *(group for group in best if group not in ahead)][:PLACES]
    return [group for group in best if group in taken]


def _goodness(group: Group) -> float:
    measure = main_measure(group)
    numbers = measure.of(group)
    if not numbers:
        return -math.inf
    return statistics.fmean(numbers) * (1 if measure.better == "higher" else -1)


def examples_of(group: Group, runs: Runs) -> tuple[list[Example], list[str]]:
    """(the decisions of the group's first run, what there is none of).

    Raises:
        CbrError: its checkpoint, games or text encoder are not here, or a game cannot be played.
    """
    with runs.opened(group.runs[0]) as opened:
        retriever = opened.parts.reasoner.retriever
        if retriever is None or not len(retriever.memory):
            return [], ["no decisions: its memory holds no case"]
        finder = Finder(group, opened.parts.reasoner, retriever.threshold)
        look_through(opened, finder)
    looked = f"in {finder.plays} game plays ({finder.steps} steps)"
    missing = [f"no decision {looked} where {KINDS[kind]}" for kind in KINDS if kind not in finder.best]
    return [finder.best[kind][1] for kind in KINDS if kind in finder.best], missing


def look_through(opened: Run, finder: Finder) -> None:
    """The first game plays of the evaluation, until the finder has seen enough."""
    from cbr_watch.watching import watch

    greedy = opened.checked.evaluation.modes[:1] == ("greedy",)
    with contextlib.suppress(_Enough):
        watch(opened, finder, episodes=PLAYS, greedy=greedy)


class _Enough(Exception):
    """Nothing more telling is to be expected, or the limit of steps is reached."""


class Finder:
    """A watcher who keeps the most telling decision of each kind, the first among equals.

    Attributes:
        best: kind -> (how telling it is, the decision).
        plays, steps: looked through so far.
    """

    def __init__(self, group: Group, reasoner: CaseBasedReasoner, tau: float) -> None:
        self._group = group
        self._reasoner = reasoner
        self._tau = tau
        self.best: dict[str, tuple[Rank, Example]] = {}
        self.plays = self.steps = 0

    def begins(self, start: Start) -> None:
        self.plays += 1

    def decided(self, observation: Observation, explained: Explanation) -> Action | None:
        return None

    def stepped(self, step: Step) -> None:
        from cbr_open.compared import similarities_at

        self.steps += 1
        compared = similarities_at(self._reasoner, step.trace)
        if compared.values.size:
            example = Example(self._group, kind_of(step), step, compared, self._tau)
            best = self.best.get(example.kind)
            if best is None or rank(example) > best[0]:
                self.best[example.kind] = rank(example), example
        if self.steps >= STEPS or all(kind in self.best and self.best[kind][0][:2] == ENOUGH for kind in KINDS):
            raise _Enough


def kind_of(step: Step) -> str:
    """A joint agent reuses if it takes what a case offers."""
    return REUSE if step.decision.chosen is not None else FALLBACK


ENOUGH = (2, 1)
"""The first numbers of a rank than which no better is looked for."""


def rank(example: Example) -> Rank:
    """Best a reuse that earned a reward, and a fallback where something was retrieved but could not be reused;
    either with several contexts to compare, then what earned a reward and what the agent alone would not have
    done, then as many contexts as a figure shows."""
    contexts, decision = len(example.compared.contexts), example.step.decision
    rewarded = example.step.result.reward > 0
    other = decision.agent_action != decision.action
    first = 2 * rewarded if example.kind == REUSE else _refused(example)
    return (first, int(contexts > 1), int(rewarded), int(other), min(contexts, COLUMNS))


def _refused(example: Example) -> int:
    """2: revise refused what reuse made, 1: what is above tau takes another number of entities, 0: no case is."""
    return 2 if example.step.decision.candidates else int((example.compared.values > example.tau).any())


def shown(example: Example) -> tuple[list[int], list[int]]:
    """(rows, columns) of the similarities that a figure shows: where the decision was made, then what was
    retrieved, then the most similar ones."""
    values = example.compared.values
    row_chosen, column_chosen = example.chosen or (-1, -1)
    of_row: dict[int, float] = {}  # the relevance of what was retrieved there
    of_column: dict[int, float] = {}
    for (row, column), candidate in example.candidates.items():
        of_row[row] = max(of_row.get(row, 0.0), candidate.match.relevance)
        of_column[column] = max(of_column.get(column, 0.0), candidate.match.relevance)
    columns = sorted(
        range(values.shape[1]),
        key=lambda column: (column != column_chosen, -of_column.get(column, 0.0), -values[:, column].max()),
    )[:COLUMNS]
    rows = sorted(
        range(values.shape[0]),
        key=lambda row: (row != row_chosen, -of_row.get(row, 0.0), -values[row, columns].max()),
    )[:ROWS]
    return rows, columns
