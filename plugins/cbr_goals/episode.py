"""One episode with goals: which are open, how likely each is, and what came of the steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from cbr_goals.atlas import Recall
from cbr_goals.kinds import Kind, names_of
from cbr_goals.memory import EvidenceMemory
from cbr_goals.steps import Goal, Scene, Steps
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import Places, Situation
from cbrcore.types import Action, Candidate, Decision, EntityTuple, Match, Observation, StepResult, arity

if TYPE_CHECKING:
    from cbr_goals.policy import Goals

SHOWN = 20
"""So many candidates are told, the best ones."""


class GoalsReuse:
    """One episode of it.

    Args:
        policy: what lasts longer than the episode.
        retriever: makes the keys of goals; `memory` is its memory.
        alone: whether the agent takes all steps.
    """

    def __init__(
        self,
        policy: Goals,
        retriever: Retriever,
        memory: EvidenceMemory,
        recall: Recall | None,
        *,
        learning: bool,
        alone: bool,
    ) -> None:
        self._policy, self._config, self._alone = policy, policy.config, alone
        self._retriever, self._memory, self._recall, self._learning = retriever, memory, recall, learning
        self._solved: set[str] = set()
        self._done: set[tuple[str, EntityTuple]] = set()
        self._failed: set[tuple[str, EntityTuple]] = set()
        self._steps = Steps(policy.config)
        self._tried: dict[tuple[str, bool], list[EntityTuple]] = {}
        self._situation: Situation = None
        self._seen: Observation | None = None
        self._now: Places | None = None

    def asks(self, observation: Observation) -> Iterable[EntityTuple]:
        """Nothing that another player of the same agent would ask, too."""
        return ()

    def offer(self, observation: Observation, situation: Situation) -> tuple[Candidate, ...]:
        """The goals that are open, each with the best way to begin with it; the most valuable first."""
        self._seen, self._situation = observation, situation
        places, effects = self._policy.places(observation), self._policy.effects
        if self._recall is not None:
            places = self._recall.see(observation, places)
        self._now = places
        if not len(self._memory):
            return ()
        scene = Scene(observation, places, effects, self._recall)
        weighed = sorted(
            (one for kind in self._memory.kinds() for one in self._weigh(kind, self._goals(kind, places))),
            key=lambda one: -one[1].relevance,
        )
        found = (self._steps.towards(scene, goal, match) for goal, match in weighed)
        offered = [candidate for candidate in found if candidate is not None]
        goal, match = weighed[0] if weighed else (None, Match(self._memory.cases[-1], 0.0))
        offered += self._steps.unseen(scene, goal, match)
        return tuple(sorted(offered, key=lambda each: -(each.value or 0.0))[:SHOWN])

    def choose(self, candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
        """The candidate of the greatest value; of equal ones that whose action the agent finds more probable."""
        if not candidates or (self._learning and self._policy.explores(alone=self._alone)):
            return None
        return max(candidates, key=lambda each: (each.value or 0.0, probability[each.executed]))

    def observe(self, decision: Decision, result: StepResult) -> bool:
        """Whether a goal was tried in vain that is not one of an object that is solved."""
        action = decision.action
        if self._learning and self._seen is not None:
            self._policy.effects.note(self._seen.admissible, action, result.observation.admissible)
        self._take_in(decision, result)
        names, pair = names_of(action), len(action.entities) == 2
        known = {kind.pairs for kind in self._memory.kinds() if action.template in kind.templates}
        if result.reward > 0:
            self._solved.update(names[:pair])
            self._done.add((action.template, names))
            self._note(action, right=True)
        failed = result.reward <= 0 and not result.rescored and not self._is_solved(action)
        if failed and known:
            self._failed |= {(action.template, names), *([("", names)] if pair else [])}
            self._note(action, right=False)
        return failed and (pair or bool(known))

    def _take_in(self, decision: Decision, result: StepResult) -> None:
        """Into the map, where it is kept."""
        if self._recall is None or self._seen is None or self._now is None:
            return
        after = self._policy.places(result.observation)
        self._recall.moved(self._seen, self._now, decision.action, result, after)
        if self._learning:
            self._policy.took(decision)

    def _is_solved(self, action: Action) -> bool:
        names = names_of(action)
        return (action.template, names) in self._done or (len(action.entities) == 2 and names[0] in self._solved)

    def _note(self, action: Action, *, right: bool) -> None:
        """Evidence of this episode, for goals of the action's template, and for those of an object and a place."""
        for template in {action.template, *([""] if len(action.entities) == 2 else [])}:
            self._tried.setdefault((template, right), []).append(names_of(action))

    # -- goals ---------------------------------------------------------------------------------------------

    def _goals(self, kind: Kind, places: Places) -> list[Goal]:
        """What is open: each object with each place where it is not; each thing with each template of one entity;
        and what the cases of other templates themselves were about."""
        if kind.pairs:
            return [Goal(pair, kind) for pair in self._pairs(places)]
        known = {*places.where, *places.exits, places.here, places.player}
        about = kind.names
        if arity(kind.templates[0]) == 1:
            about = tuple((thing,) for thing in sorted(known - {places.player}))
        elif arity(kind.templates[0]) == 2:
            about = tuple(names for names in about if not _is_pair(names, places))
        goals = [Goal(names, kind) for names in about if known.issuperset(names)]
        left = set() if self._config.retry_failed else self._failed
        left = left if self._config.retry_solved else left | self._done
        return [goal for goal in goals if goal.action not in left]

    def _pairs(self, places: Places) -> list[EntityTuple]:
        """Each object with each place where it is not."""
        things = [thing for thing in places.where if thing not in places.holders]
        if not self._config.retry_solved:
            things = [thing for thing in things if thing not in self._solved]
        pairs = [(thing, place) for thing in sorted(things) for place in sorted(places.holders)]
        failed = set() if self._config.retry_failed else self._failed
        return [pair for pair in pairs if ("", pair) not in failed and places.where[pair[0]] != pair[1]]

    def _weigh(self, kind: Kind, goals: Sequence[Goal]) -> list[tuple[Goal, Match]]:
        """The most similar case of each goal, with p by all cases of its kind and what the episode has shown.

        That something of a like name failed is no evidence against what a case itself did ("hallway 6",
        "hallway 7"); but for an object and a place it is, as other games have the same names.
        """
        if not goals:
            return []
        keys = self._keys([goal.names for goal in goals])
        right, wrong = (self._tried.get((goals[0].action[0], good)) for good in (True, False))
        plus, minus = (self._keys(tried) if tried else None for tried in (right, wrong))
        found: list[float] = self._memory.weigh(keys, plus, minus, kind.rows).tolist()
        if minus is not None and not kind.pairs:
            alone = self._memory.weigh(keys, plus, None, kind.rows).tolist()
            known = [goal.names in kind.names for goal in goals]
            found = [own if case else p for case, own, p in zip(known, alone, found, strict=True)]
        speakers = self._memory.speakers(keys, kind)
        told = zip(goals, speakers, found, strict=True)
        return [(goal, Match(case, p)) for goal, case, p in told if p > self._memory.threshold]

    def _keys(self, goals: Sequence[EntityTuple]) -> Tensor:
        return self._retriever.keys(self._situation, goals)


def _is_pair(names: EntityTuple, places: Places) -> bool:
    """Whether these are an object and a place now, which the kind of all pairs looks after."""
    thing, place = names
    return thing in places.where and thing not in places.holders and place in places.holders
