"""How to begin with a goal, and what that is worth now: see `policy.py` for the values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cbr_goals.atlas import Recall
from cbr_goals.config import GoalsConfig
from cbr_goals.effects import Effects
from cbr_goals.kinds import Kind, names_of
from cbr_goals.ways import Way, room_of, unseen_exits, ways
from cbrcore.interfaces import Places
from cbrcore.types import Action, Candidate, EntityTuple, Match, Observation, arity, fill

LOOKS = "looks where nobody has been"


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


class Steps:
    """The steps of one episode.

    Args:
        config: gamma, and what an unseen exit is worth.
    """

    def __init__(self, config: GoalsConfig) -> None:
        self._config = config
        self._stuck: set[tuple[str, EntityTuple]] = set()

    def towards(self, scene: Scene, goal: Goal, match: Match) -> Candidate | None:
        """The best way to begin with a goal; None where there is none."""
        begin = self._steps if goal.kind.pairs else self._plain_steps
        step = max(begin(scene, goal, match.relevance), key=lambda each: each.value, default=None)
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

    def unseen(self, scene: Scene, goal: Goal | None, match: Match) -> list[Candidate]:
        """The nearest exit behind which nobody has been; for this goal, or, without one, for a case's."""
        through = [way for way in unseen_exits(scene.places, scene.ways) if way.first in scene.admissible]
        if not through or not self._config.unseen:
            return []
        value = self._config.unseen * self._config.gamma ** (through[0].moves - 1)
        step = Step(value, scene.admissible[through[0].first], LOOKS)
        return [_pending(goal.names if goal else names_of(match.case), match, step)]


def _pending(names: EntityTuple, match: Match, step: Step) -> Candidate:
    """A goal that is out of reach, with what leads towards it. The case says by which action it is reached."""
    template = match.case.template
    entities = names[: arity(template)]
    made = Action(fill(template, entities), template, entities, names)
    return Candidate(made, match, names, "pending", means=step.action, value=step.value, why=step.why)
