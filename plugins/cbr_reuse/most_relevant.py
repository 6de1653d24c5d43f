"""The paper's rule: the most relevant case's template, on the entities for which it was found [P §3, §4.3]."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from cbr_reuse.config import MostRelevantConfig
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import Build, Places, Situation
from cbrcore.types import (
    SLOT,
    Action,
    Candidate,
    Decision,
    EntityTuple,
    Match,
    Observation,
    StepResult,
    arity,
    fill,
)

ReadsPlaces = Callable[[Observation], Places]


class MostRelevant:
    """A reuse policy (`cbrcore.interfaces.ReusePolicy`)."""

    def __init__(self, config: MostRelevantConfig, build: Build) -> None:
        self.config, self.places = config, build.places

    def __repr__(self) -> str:
        return f"MostRelevant({self.config})"

    def begin(self, retriever: Retriever, *, learning: bool) -> MostRelevantReuse:
        return MostRelevantReuse(retriever, self.config, self.places)


class MostRelevantReuse:
    """One episode of it.

    Args:
        retriever: finds the cases.
        places: reads the map, where the environment has one: what failed in a room may be right in the next.
    """

    def __init__(
        self, retriever: Retriever, config: MostRelevantConfig, places: ReadsPlaces | None = None
    ) -> None:
        self._retriever, self._config, self._places = retriever, config, places
        self._here = ""
        self._failed: set[tuple[str, str]] = set()
        self._solved: set[str] = set()

    def asks(self, observation: Observation) -> Iterable[EntityTuple]:
        """The seeds of all actions that have some."""
        return (self._retriever.view(action).seeds for action in observation.admissible if action.seeds)

    def offer(self, observation: Observation, situation: Situation) -> tuple[Candidate, ...]:
        """Retrieve and reuse: the templates of retrieved actions on the entities V_a of current ones [P §4.3]."""
        if self._places and not self._config.retry_failed:
            self._here = self._places(observation).here
        admissible = {action.text: action for action in observation.admissible}
        return tuple(
            self._adapt(match, action, admissible)
            for action, matches in self._retrieve(situation, observation)
            for match in matches
            if arity(match.case.template) == len(action.entities)
        )

    def choose(self, candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
        """Revise: the most relevant candidate that is admissible."""
        return most_relevant(candidates, probability)

    def observe(self, decision: Decision, result: StepResult) -> bool:
        """Whether a reuse failed: it earned nothing, and had not earned something before."""
        earned_nothing = result.reward <= 0 and not result.rescored
        if earned_nothing:
            self._failed.add((self._here, decision.action.text))
        elif result.reward > 0:
            self._solved.update(decision.action.entities[:1])
        return decision.chosen is not None and earned_nothing

    def _retrieve(self, situation: Situation, observation: Observation) -> list[tuple[Action, list[Match]]]:
        """One context per distinct entity tuple: "take X" and "examine X" share it, which is exact, since the
        context depends on the graph and V_a only [P §4.1]. Returned with one action that has the tuple."""
        views = (self._retriever.view(action) for action in observation.admissible if action.seeds)
        distinct = {(action.seeds, action.entities): action for action in views}
        matches = self._retriever.retrieve(situation, [seeds for seeds, _ in distinct])
        return [(action, found) for action, found in zip(distinct.values(), matches, strict=True) if found]

    def _adapt(self, match: Match, current: Action, admissible: Mapping[str, Action]) -> Candidate:
        """Entities in the order of the current action; if that is inadmissible, in the other orders."""
        text = first_order(match.case.template, current.entities, admissible)
        if text is None:
            made = Action.from_template(match.case.template, current.entities, seeds=current.seeds)
            return Candidate(made, match, current.seeds, "inadmissible")
        return Candidate(admissible[text], match, current.seeds, self._verdict(admissible[text], match))

    def _verdict(self, action: Action, match: Match) -> str:
        failed = not self._config.retry_failed and (self._here, action.text) in self._failed
        if failed or match.against >= match.relevance:
            return "failed"
        solved = not self._config.retry_solved and not self._solved.isdisjoint(action.entities[:1])
        return "solved" if solved else "admissible"


def most_relevant(candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
    """Of the candidates that are admissible the most relevant one; None: ask pi [P §3].

    Ties in delta: higher pi(a|s), then the more often rewarded case, then the more recent one.
    """
    usable = [candidate for candidate in candidates if candidate.verdict == "admissible"]

    def order(candidate: Candidate) -> tuple[float, float, int, int, int]:
        case = candidate.match.case
        return candidate.match.relevance, probability[candidate.action], case.rewarded, case.last_step, case.id

    return max(usable, key=order, default=None)


def first_order(template: str, entities: Sequence[str], texts: Collection[str]) -> str | None:
    """The first of `texts` that the template gives for the entities, in the order of `itertools.permutations`.

    Grows the command slot by slot, and only as long as a text begins like that: all orders would be n!.
    """
    first = fill(template, entities)
    if first in texts:
        return first
    pieces, letters = template.split(SLOT), sorted(first)
    alike = (text for text in texts if len(text) == len(first) and text.endswith(pieces[-1]))
    known = sorted(text for text in alike if sorted(text) == letters)
    grown, seen = [(pieces[0], tuple(entities))], set[tuple[str, EntityTuple]]()
    while grown:
        command, left = grown.pop()
        at = bisect_left(known, command)
        if (command, left) in seen or at == len(known) or not known[at].startswith(command):
            continue
        if not left:
            return command
        seen.add((command, left))
        piece = pieces[len(pieces) - len(left)]
        for name in reversed(dict.fromkeys(left)):
            spot = left.index(name)
            grown.append((command + name + piece, left[:spot] + left[spot + 1 :]))
    return None
