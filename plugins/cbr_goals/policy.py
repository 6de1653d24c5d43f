"""Reuse and revise with goals: a case says what to achieve; learned effects and a map say how to get there.

A goal is an object o with a place h. Cases and what the episode has shown give p(o, h) that this is right
(`cbr_goals.memory`); its value is what it is worth to go there now:

    the goal's action is admissible            p
    an action that takes the object            1 + p     needed whichever place is right
    an action that makes the place ready       gamma p
    object or place are d moves away           gamma^d p
    an exit behind which nobody has been       unseen gamma^(d - 1), d with the move through it

A goal need not be an object with a place. For one of a single entity ("take {}"), of none (what earned something
in a certain room), of a thing and what is no place, or of more, the cases of the same template speak; an action
that enables it, whichever of its entities it prepares, is worth gamma p.

The candidate of the greatest value is executed. Solved objects and pairs that failed are left alone until the
episode ends; all that lasts is the cases, and the effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from cbr_goals.atlas import Atlas, Recall
from cbr_goals.config import GoalsConfig
from cbr_goals.effects import Effects
from cbr_goals.kinds import Kind, names_of
from cbr_goals.memory import EvidenceMemory
from cbr_goals.ways import Way, room_of, unseen_exits, ways
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Places, Situation
from cbrcore.rng import derive_seed, generator
from cbrcore.types import Action, Candidate, Decision, EntityTuple, Match, Observation, StepResult, arity, fill

LOOKS = "looks where nobody has been"
SHOWN = 20
"""So many candidates are told, the best ones."""


def goals(config: GoalsConfig, build: Build) -> Goals:
    """The policy that a recipe describes."""
    return RememberingGoals(config, build) if config.remember_map else Goals(config, build)


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
        return GoalsReuse(self, retriever, retriever.memory, self.recall(learning=learning), learning=learning)

    def recall(self, *, learning: bool) -> Recall | None:
        """What an episode knows of earlier ones' maps."""
        return None

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


class RememberingGoals(Goals):
    """One that keeps a map of each game over the episodes, and tells its share of the training's steps."""

    def __init__(self, config: GoalsConfig, build: Build) -> None:
        super().__init__(config, build)
        self.atlas = Atlas()
        self.taken = {"steps": 0, "goals": 0, "unseen": 0}
        self.handicaps = {**self.handicaps, "map": "kept over the episodes of training"}

    def recall(self, *, learning: bool) -> Recall:
        return Recall(self.atlas, learning=learning)

    def facts(self) -> dict[str, Any]:
        """For the results: shares of the training's steps, and what the maps hold."""
        steps = max(1, self.taken["steps"])
        return {
            "share_of_goals": self.taken["goals"] / steps,
            "share_of_unseen_exits": self.taken["unseen"] / steps,
            "rooms": {game: len(known.exits) for game, known in sorted(self.atlas.maps.items())},
        }

    def state(self) -> dict[str, Any]:
        return {**super().state(), "atlas": self.atlas.state(), "taken": dict(self.taken)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.atlas.load_state(state["atlas"])
        self.taken = dict(state["taken"])


@dataclass(frozen=True)
class Scene:
    """What is to be decided on: what is seen, the map and its ways, and what is done in vain here."""

    seen: Observation
    places: Places
    effects: Effects
    recall: Recall | None = None

    def enabling(self, kind: Kind, slot: int) -> dict[str, set[int]]:
        """Which templates enable a slot of a kind's goals."""
        known = self._enabling.get((kind.templates, slot))
        if known is None:
            known = self._enabling[kind.templates, slot] = self.effects.enabling(kind.templates, slot)
        return known

    @cached_property
    def _enabling(self) -> dict[tuple[tuple[str, ...], int], dict[str, set[int]]]:
        return {}

    @cached_property
    def means(self) -> tuple[Action, ...]:
        """The admissible actions that are not known to be done in vain here."""
        here, recall = self.places.here, self.recall
        return tuple(a for a in self.seen.admissible if recall is None or not recall.is_vain(here, a))

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


class Goal(NamedTuple):
    """What its key is made of, and the cases that speak for it."""

    names: EntityTuple
    kind: Kind

    @property
    def action(self) -> tuple[str, EntityTuple]:
        """What it is: an object and a place, or a template and what that is about."""
        return "" if self.kind.pairs else self.kind.templates[0], self.names


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

    def __init__(
        self,
        policy: Goals,
        retriever: Retriever,
        memory: EvidenceMemory,
        recall: Recall | None,
        *,
        learning: bool,
    ) -> None:
        self._policy, self._config = policy, policy.config
        self._retriever, self._memory, self._recall, self._learning = retriever, memory, recall, learning
        self._solved: set[str] = set()
        self._done: set[tuple[str, EntityTuple]] = set()
        self._failed: set[tuple[str, EntityTuple]] = set()
        self._stuck: set[tuple[str, EntityTuple]] = set()
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
        if not len(self._memory):
            return ()
        places, effects = self._policy.places(observation), self._policy.effects
        if self._recall is not None:
            places = self._recall.see(observation, places)
        self._now = places
        scene = Scene(observation, places, effects, self._recall)
        weighed = sorted(
            (one for kind in self._memory.kinds() for one in self._weigh(kind, self._goals(kind, places))),
            key=lambda one: -one[1].relevance,
        )
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
        if self._learning and isinstance(self._policy, RememberingGoals):
            self._policy.taken["steps"] += 1
            if decision.chosen is not None:
                self._policy.taken["unseen" if decision.chosen.why == LOOKS else "goals"] += 1

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

    # -- candidates ----------------------------------------------------------------------------------------

    def _candidate(self, scene: Scene, goal: Goal, match: Match) -> Candidate | None:
        """The best way to begin with a goal; None where there is none."""
        found = self._steps(scene, goal, match.relevance)
        if not goal.kind.pairs:
            found = self._plain_steps(scene, goal, match.relevance)
        step = max(found, key=lambda each: each.value, default=None)
        if step is None:
            return None
        if step.within_reach:
            return Candidate(step.action, match, goal.names, "admissible", value=step.value, why=step.why)
        return _pending(goal.names, match, step)

    def _plain_steps(self, scene: Scene, goal: Goal, p: float) -> Iterator[Step]:
        """Of a goal that is not one of an object and a place. Where one was there and could not do it, it is left
        until it is within reach: else two of them would send the player to and fro."""
        away = [name for name in goal.names if room_of(name, scene.places) != scene.places.here]
        if direct := self._direct(scene, goal):
            yield Step(p, direct, "it is within reach", within_reach=True)
        elif means := self._preparing(scene, goal):
            yield Step(self._config.gamma * p, means, "makes it possible")
        elif not away:
            self._stuck.add(goal.action)
        elif goal.action not in self._stuck:
            yield from self._towards(scene, away[0], p)

    def _preparing(self, scene: Scene, goal: Goal) -> Action | None:
        """An action that enables the goal for one of its entities; without any, one that did so here before."""
        template, here = goal.kind.templates[0], scene.places.here
        if not arity(template) and scene.recall is not None and goal.names[-1:] == (here,):
            opener = scene.recall.opener(scene.seen.game, here, template)
            return next((action for action in scene.means if action.text == opener), None)
        slots = range(arity(template))
        found = (self._means(scene, goal, slot) for slot in slots)
        return next((means[0] for means in found if means), None)

    def _steps(self, scene: Scene, goal: Goal, p: float) -> Iterator[Step]:
        thing, place = goal.names
        gamma, held = self._config.gamma, scene.places.where[thing] == scene.places.player
        if direct := self._direct(scene, goal):
            yield Step(p, direct, "it is within reach", within_reach=True)
        elif not held and (takes := self._means(scene, goal, 0)):
            yield Step(1 + p, takes[0], f"takes the {thing}")
        elif held and (opens := self._means(scene, goal, 1)):
            yield Step(gamma * p, opens[0], f"makes the {place} ready")
        else:
            yield from self._towards(scene, place if held else thing, p)
            if not held and (opens := self._means(scene, goal, 1, scene.places.where[thing])):
                yield Step(gamma * p, opens[0], f"gets at the {thing}")

    def _towards(self, scene: Scene, thing: str, p: float) -> Iterator[Step]:
        way = scene.way_to(thing)
        if way is not None and way.moves:
            away = f"{way.moves} room{'s' * (way.moves > 1)} away"
            yield Step(self._config.gamma**way.moves * p, scene.admissible[way.first], f"the {thing} is {away}")

    def _direct(self, scene: Scene, goal: Goal) -> Action | None:
        """The goal's own action, if it is admissible."""
        fitting = (action for action in scene.seen.admissible if action.template in goal.kind.templates)
        return next((action for action in fitting if names_of(action) == goal.names), None)

    def _means(self, scene: Scene, goal: Goal, slot: int, entity: str | None = None) -> list[Action]:
        """The admissible actions on the goal's entity, or another, after which that can be in this slot of one."""
        slots, name = scene.enabling(goal.kind, slot), entity or goal.names[slot]
        return [
            action
            for action in scene.means
            if action.template not in goal.kind.templates
            and any(names_of(action)[at] == name for at in slots.get(action.template, ()))
        ]

    def _unseen(self, scene: Scene, weighed: Sequence[tuple[Goal, Match]]) -> list[Candidate]:
        """The nearest exit behind which nobody has been, for the goal that is the most likely one so far; for that
        of the youngest case where none is open."""
        through = [way for way in unseen_exits(scene.places, scene.ways) if way.first in scene.admissible]
        if not through or not self._config.unseen:
            return []
        value = self._config.unseen * self._config.gamma ** (through[0].moves - 1)
        step = Step(value, scene.admissible[through[0].first], LOOKS)
        youngest = self._memory.cases[-1]
        if not weighed:
            return [_pending(names_of(youngest), Match(youngest, 0.0), step)]
        goal, match = weighed[0]
        return [_pending(goal.names, match, step)]


def _pending(names: EntityTuple, match: Match, step: Step) -> Candidate:
    """A goal that is out of reach, with what leads towards it. The case says by which action it is reached."""
    template = match.case.template
    entities = names[: arity(template)]
    made = Action(fill(template, entities), template, entities, names)
    return Candidate(made, match, names, "pending", means=step.action, value=step.value, why=step.why)


def _is_pair(names: EntityTuple, places: Places) -> bool:
    """Whether these are an object and a place now, which the kind of all pairs looks after."""
    thing, place = names
    return thing in places.where and thing not in places.holders and place in places.holders
