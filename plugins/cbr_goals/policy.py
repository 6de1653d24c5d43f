"""Reuse and revise with goals: a case says what to achieve; learned effects and a map say how to get there.

A goal is an object o with a place h. Cases and what the episode has shown give p(o, h) that this is right
(`cbr_goals.memory`); its value is what it is worth to go there now:

    the goal's action is admissible            p
    an action that takes the object            1 + p     needed whichever place is right
    an action that makes the place ready       gamma p
    object or place are d moves away           gamma^d p
    an exit behind which nobody has been       unseen gamma^(d - 1), d with the move through it

The candidate of the greatest value is executed. Solved objects and pairs that failed are left alone until the
episode ends; all that lasts is the cases, and the effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from cbr_goals.config import GoalsConfig
from cbr_goals.effects import Effects
from cbr_goals.memory import EvidenceMemory
from cbr_goals.ways import Way, room_of, unseen_exits, ways
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Places, Situation
from cbrcore.rng import derive_seed, generator
from cbrcore.types import Action, Candidate, Decision, EntityTuple, Match, Observation, StepResult, arity

SHOWN = 20
"""So many candidates are told, the best ones."""


class Goals:
    """A reuse policy (`cbrcore.interfaces.ReusePolicy`). What it learns, the effects, is kept in checkpoints.

    Raises:
        CbrError: the environment does not tell places.
    """

    def __init__(self, config: GoalsConfig, build: Build) -> None:
        if build.places is None:
            raise CbrError("goals needs an environment that tells places", hint="use cbr_twc/twc, or another rule")
        self.config, self.places, self._seed = config, build.places, build.seed
        self.effects = Effects()
        self._plays, self._steps = 0, 0
        remembered = {"solved goals": not config.retry_solved, "failed goals": not config.retry_failed}
        self.handicaps: Mapping[str, Any] = {
            "places": True,
            "episode_memory": [name for name, used in remembered.items() if used],
        }

    def __repr__(self) -> str:
        return f"Goals({self.effects!r})"

    def begin(self, retriever: Retriever, *, learning: bool) -> GoalsReuse:
        if not isinstance(retriever.memory, EvidenceMemory):
            raise CbrError("goals needs the memory cbr_goals/evidence", hint="memory: {use: cbr_goals/evidence}")
        self._plays += learning
        return GoalsReuse(self, retriever, retriever.memory, learning=learning)

    def explores(self) -> bool:
        """Whether the agent takes this step of the training, whatever the cases say: always in the first plays,
        then by chance, which depends on the seed and the number of the step alone."""
        self._steps += 1
        drawn = generator(derive_seed(self._seed, f"explore:{self._steps}")).random()
        return bool(self._plays <= self.config.random_plays or drawn < self.config.explore)

    def state(self) -> dict[str, Any]:
        return {"effects": self.effects.state(), "plays": self._plays, "steps": self._steps}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.effects.load_state(state["effects"])
        self._plays, self._steps = state["plays"], state["steps"]


@dataclass(frozen=True)
class Scene:
    """What is to be decided on: what is seen, the map and its ways, the templates of goals and their means."""

    seen: Observation
    places: Places
    templates: tuple[str, ...]
    effects: Effects

    @cached_property
    def enabling(self) -> tuple[dict[str, set[int]], ...]:
        """Of the two slots of goals: which templates enable them."""
        return tuple(self.effects.enabling(self.templates, slot) for slot in (0, 1))

    @cached_property
    def admissible(self) -> dict[str, Action]:
        return {action.text: action for action in self.seen.admissible}

    @cached_property
    def ways(self) -> dict[str, Way]:
        return ways(self.places)

    def way_to(self, thing: str) -> Way | None:
        """To the room of a thing; None where it is not known, or blocked now."""
        way = self.ways.get(room_of(thing, self.places) or "")
        return way if way is not None and (not way.moves or way.first in self.admissible) else None


class Step(NamedTuple):
    """A way to begin with a goal, and what that is worth."""

    value: float
    action: Action
    why: str
    within_reach: bool = False


class GoalsReuse:
    """One episode of it.

    Args:
        policy: what lasts longer than the episode.
        retriever: makes the keys of goals; `memory` is its memory.
    """

    def __init__(self, policy: Goals, retriever: Retriever, memory: EvidenceMemory, *, learning: bool) -> None:
        self._policy, self._config = policy, policy.config
        self._retriever, self._memory, self._learning = retriever, memory, learning
        self._solved: set[str] = set()
        self._failed: set[EntityTuple] = set()
        self._right: list[EntityTuple] = []
        self._wrong: list[EntityTuple] = []
        self._situation: Situation = None
        self._seen: Observation | None = None

    def asks(self, observation: Observation) -> Iterable[EntityTuple]:
        """Nothing that another player of the same agent would ask, too."""
        return ()

    def offer(self, observation: Observation, situation: Situation) -> tuple[Candidate, ...]:
        """The goals that are open, each with the best way to begin with it; the most valuable first."""
        self._seen, self._situation = observation, situation
        if not len(self._memory):
            return ()
        places, effects = self._policy.places(observation), self._policy.effects
        scene = Scene(observation, places, self._templates(), effects)
        goals = self._goals(scene.places)
        found = self._retriever.retrieve(situation, goals)
        best = [(p, goal, of[0]) for p, goal, of in zip(self._weigh(goals), goals, found, strict=True) if of]
        weighed = [(goal, replace(match, relevance=p)) for p, goal, match in sorted(best, key=lambda one: -one[0])]
        offered = [one for goal, match in weighed if (one := self._candidate(scene, goal, match)) is not None]
        offered += self._unseen(scene, weighed)
        return tuple(sorted(offered, key=lambda each: -(each.value or 0.0))[:SHOWN])

    def choose(self, candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
        """The candidate of the greatest value; of equal ones that whose action the agent finds more probable."""
        if not candidates or (self._learning and self._policy.explores()):
            return None
        return max(candidates, key=lambda each: (each.value or 0.0, probability[each.executed]))

    def observe(self, decision: Decision, result: StepResult) -> bool:
        """Whether a goal was tried in vain that is not one of an object that is solved."""
        action, tried = decision.action, len(decision.action.entities) == 2
        if self._learning and self._seen is not None:
            self._policy.effects.note(self._seen.admissible, action, result.observation.admissible)
        if result.reward > 0 and tried:
            self._solved.add(action.entities[0])
            self._right.append(action.entities)
        failed = tried and result.reward <= 0 and not result.rescored and action.entities[0] not in self._solved
        if failed and action.template in self._templates():
            self._failed.add(action.entities)
            self._wrong.append(action.entities)
        return failed

    # -- goals ---------------------------------------------------------------------------------------------

    def _templates(self) -> tuple[str, ...]:
        """Of the cases that are goals: an object and a place."""
        return tuple(sorted({case.template for case in self._memory.cases if arity(case.template) == 2}))

    def _goals(self, places: Places) -> list[EntityTuple]:
        """Each object with each place where it is not."""
        things = [thing for thing in places.where if thing not in places.holders]
        if not self._config.retry_solved:
            things = [thing for thing in things if thing not in self._solved]
        pairs = [(thing, place) for thing in sorted(things) for place in sorted(places.holders)]
        failed = set() if self._config.retry_failed else self._failed
        return [pair for pair in pairs if pair not in failed and places.where[pair[0]] != pair[1]]

    def _weigh(self, goals: Sequence[EntityTuple]) -> list[float]:
        """p of each goal, with what the episode has shown."""
        if not goals:
            return []
        right, wrong = (self._keys(tried) if tried else None for tried in (self._right, self._wrong))
        evidence: list[float] = self._memory.weigh(self._keys(goals), right, wrong).tolist()
        return evidence

    def _keys(self, goals: Sequence[EntityTuple]) -> Tensor:
        return self._retriever.keys(self._situation, goals)

    # -- candidates ----------------------------------------------------------------------------------------

    def _candidate(self, scene: Scene, goal: EntityTuple, match: Match) -> Candidate | None:
        """The best way to begin with a goal; None where there is none."""
        step = max(self._steps(scene, goal, match.relevance), key=lambda each: each.value, default=None)
        if step is None:
            return None
        if step.within_reach:
            return Candidate(step.action, match, goal, "admissible", value=step.value, why=step.why)
        return _pending(goal, match, step)

    def _steps(self, scene: Scene, goal: EntityTuple, p: float) -> Iterator[Step]:
        thing, place = goal
        gamma, held = self._config.gamma, scene.places.where[thing] == scene.places.player
        if direct := self._direct(scene, goal):
            yield Step(p, direct, "it is within reach", within_reach=True)
        elif not held and (takes := self._means(scene, thing, 0)):
            yield Step(1 + p, takes[0], f"takes the {thing}")
        elif held and (opens := self._means(scene, place, 1)):
            yield Step(gamma * p, opens[0], f"makes the {place} ready")
        else:
            yield from self._towards(scene, place if held else thing, p)
            if not held and (opens := self._means(scene, scene.places.where[thing], 1)):
                yield Step(gamma * p, opens[0], f"gets at the {thing}")

    def _towards(self, scene: Scene, thing: str, p: float) -> Iterator[Step]:
        way = scene.way_to(thing)
        if way is not None and way.moves:
            away = f"{way.moves} room{'s' * (way.moves > 1)} away"
            yield Step(self._config.gamma**way.moves * p, scene.admissible[way.first], f"the {thing} is {away}")

    def _direct(self, scene: Scene, goal: EntityTuple) -> Action | None:
        """The goal's own action, if it is admissible."""
        fitting = (action for action in scene.seen.admissible if action.entities == goal)
        return next((action for action in fitting if action.template in scene.templates), None)

    def _means(self, scene: Scene, entity: str, slot: int) -> list[Action]:
        """The admissible actions on an entity after which it can be in this slot of a goal."""
        slots = scene.enabling[slot]
        return [
            action
            for action in scene.seen.admissible
            if action.template not in scene.templates
            and any(action.entities[at] == entity for at in slots.get(action.template, ()))
        ]

    def _unseen(self, scene: Scene, weighed: Sequence[tuple[EntityTuple, Match]]) -> list[Candidate]:
        """The nearest exit behind which nobody has been, for the goal that is the most likely one so far; for that
        of the youngest case where none is open."""
        through = [way for way in unseen_exits(scene.places, scene.ways) if way.first in scene.admissible]
        if not through or not self._config.unseen:
            return []
        value = self._config.unseen * self._config.gamma ** (through[0].moves - 1)
        step = Step(value, scene.admissible[through[0].first], "looks where nobody has been")
        youngest = self._memory.cases[-1]
        goal, match = weighed[0] if weighed else (youngest.entities, Match(youngest, 0.0))
        return [_pending(goal, match, step)]


def _pending(goal: EntityTuple, match: Match, step: Step) -> Candidate:
    """A goal that is out of reach, with what leads towards it. The case says by which action it is reached."""
    made = Action.from_template(match.case.template, goal)
    return Candidate(made, match, goal, "pending", means=step.action, value=step.value, why=step.why)
