"""The border around an environment: what a game says, and may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from cbr_border.values import Border, Kind, can_be_written, cleaned, short
from cbrcore.interfaces import (
    ConcurrentEnvironment,
    Environment,
    KeepsState,
    KnowsContents,
    KnowsPlaces,
    Places,
    TellsPlaces,
)
from cbrcore.types import Action, Ending, Observation, StateGraph, StepResult, arity, fill

REMEMBERED = 500
"""Objects of an environment that are known to be sound, at most."""
PLAYING = ("reset", "step", "send", "receive")
OBSERVED = {
    "feedback": str, "description": str, "inventory": str, "admissible": tuple, "graph": StateGraph,
    "scored": tuple, "last_action": str | None, "game": str, "steps": int,
}  # fmt: skip
"""What an observation holds, beside its numbers."""
FIGURES = ("max_score", "initial_score", "optimal_steps")
CONTENTS = ("sha256", "md5")
"""Facts about a game that are reckoned with, and that tell whether two games are one."""


class GameBorder(Border):
    """Around an environment. It also replaces half characters (lone surrogates) in what a game says by escapes, so
    that it can be written; the environment is still given the names and actions that it gave."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__(kind, name)
        self._play, self._steps = "", 0
        self._own: dict[Any, Any] = {}
        self._sound: dict[int, Any] = {}

    def place(self) -> str:
        step = f", step {self._steps}" if self._steps else ""
        return f" (game {self._play}{step})" if self._play and self.method in PLAYING else ""

    def begin(self, arguments: Sequence[Any]) -> Sequence[Any]:
        if self.method == "reset":
            self._play, self._steps = f"{arguments[0]!r}, seed {arguments[1]}", 0
        self._steps += self.method in ("step", "send")
        if not self._own:
            return arguments
        return [self._own.get(each, each) if isinstance(each, str | Action) else each for each in arguments]

    def names(self, given: Any, *asked: str) -> Any:
        """Of splits, or of the games of one."""
        for name in self.a(tuple | list, given, "a tuple of names"):
            self.a(str, name, "text as a name")
        if asked == ("train",) and not given:
            self.refuse(short(given), "a game to train on")
        if not asked and "train" not in given:
            self.refuse(short(given), "'train' as one of them")
        self._own |= {new: old for old in given if (new := cleaned(old)) != old}
        return cleaned(given)

    def told(self, given: Any, *_: Any) -> Any:
        """Facts about a game."""
        facts = self.facts(given)
        for name in FIGURES:
            self.number(f"{name} as", facts.get(name), or_none=True)
        for name in CONTENTS:
            self.a(str | None, facts.get(name), f"text or None as {name}")
        return facts

    def result(self, given: Any, *_: Any) -> Any:
        """What came of an action."""
        self.a(StepResult, given, "a StepResult")
        reward = self.number("the reward", given.reward)
        self.a(Ending | None, given.ending, "an Ending or None")
        self.a(bool, given.rescored, "True or False as rescored")
        seen = self.observation(given.observation)
        same = seen is given.observation and reward is given.reward
        return given if same else replace(given, observation=seen, reward=reward)

    def observation(self, seen: Any, *_: Any) -> Any:
        """What an agent sees."""
        values = vars(self.a(Observation, seen, "an Observation"))
        for name, kind in OBSERVED.items():
            if not isinstance(values[name], kind):
                self.refuse(
                    f"{name} {short(values[name])}", f"{kind.__name__ if isinstance(kind, type) else kind}"
                )
        score = self.number("the score", seen.score)
        most = self.number("the max_score", seen.max_score, or_none=True)
        if score is not seen.score or most is not seen.max_score:
            seen = replace(seen, score=score, max_score=most)
        said = [seen.feedback, seen.description, seen.inventory, seen.game, seen.last_action or "", *seen.scored]
        if all([can_be_written("".join(said)), self._actions(seen.admissible), self._graph(seen.graph)]):
            return seen
        clean = cleaned(seen)
        self._own |= dict(zip(clean.admissible, seen.admissible, strict=True))
        return clean

    def _actions(self, admissible: tuple[Action, ...]) -> bool:
        """Whether their texts can be written. RunFailed: one is no action, or not its template filled."""
        if self._is_sound(admissible):
            return True
        fresh = [action for action in admissible if not self._is_sound(action)]
        for action in fresh:
            self.a(Action, action, "an Action")
            if not (isinstance(action.entities, tuple) and isinstance(action.seeds, tuple)):
                self.refuse(short(action), "tuples of entities and seeds")
            fits = arity(action.template) == len(action.entities)
            if not fits or fill(action.template, action.entities) != action.text:
                self.refuse(short(action), "the template, filled with the entities, as the text")
        texts = [text for action in fresh for text in (action.text, action.template, *action.seeds)]
        return can_be_written("".join(texts)) and self._remember(admissible, *fresh)

    def _graph(self, graph: StateGraph) -> bool:
        """Whether its names can be written. RunFailed: they are no names, or three make no triple."""
        if self._is_sound(graph):
            return True
        names = [*graph.nodes, *chain.from_iterable(graph.triples)]
        if len(names) != len(graph.nodes) + 3 * len(graph.triples) or not all(isinstance(n, str) for n in names):
            self.refuse(short(graph), "a graph of names, and of triples of names")
        return can_be_written("".join(names)) and self._remember(graph)

    def _is_sound(self, thing: Any) -> bool:
        return self._sound.get(id(thing)) is thing

    def _remember(self, *things: Any) -> bool:
        """That they are sound; most environments give the same frozen objects again and again."""
        if len(self._sound) > REMEMBERED:
            self._sound.clear()
        self._sound |= {id(thing): thing for thing in things}
        return True


GAMES = Kind(
    "environment",
    Environment,
    {
        "splits": GameBorder.names,
        "games": GameBorder.names,
        "game_info": GameBorder.told,
        "reset": GameBorder.observation,
        "step": GameBorder.result,
        "receive": GameBorder.result,
        "content": lambda it, given, *_: it.a(str, given, "text"),
        "object_places": lambda it, given, *_: cleaned(given),
        "places": lambda it, given, *_: cleaned(it.a(Places, given, "Places")),
        "state": GameBorder.facts,
    },
    (ConcurrentEnvironment, KnowsPlaces, TellsPlaces, KnowsContents, KeepsState),
)
