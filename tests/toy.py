"""A text game in a few lines of Python: put each thing where it belongs. For tests of the core alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbrcore.errors import CbrError
from cbrcore.types import Action, Ending, Observation, StateGraph, StepResult

GAMES: dict[str, dict[str, str]] = {
    "books": {"book": "shelf"},
    "plates": {"plate": "rack"},
    "coats": {"coat": "hook"},
}
PLACES = ("shelf", "rack", "hook")


class ToyEnvironment:
    """One room, one thing on the floor, three places. `max_steps` ends an episode without ending the game."""

    handicaps: Mapping[str, Any] = {"state_graph": "ground truth"}

    def __init__(self, *, max_steps: int = 10) -> None:
        self.max_steps = max_steps
        self.closed = False

    def splits(self) -> tuple[str, ...]:
        return ("train", "in", "out")

    def games(self, split: str) -> tuple[str, ...]:
        games = {"train": ("books", "plates"), "in": ("books", "plates"), "out": ("coats",)}
        if split not in games:
            raise CbrError(f"no split {split!r}", hint=f"choose one of: {', '.join(games)}")
        return games[split]

    def game_info(self, game: str) -> Mapping[str, Any]:
        return {"sha256": game, "max_score": len(GAMES[game]), "optimal_steps": 2 * len(GAMES[game])}

    def reset(self, game: str, seed: int) -> Observation:
        self._game, self._goals, self._steps, self._score = game, GAMES[game], 0, 0.0
        self._where = dict.fromkeys(self._goals, "floor")
        self._paid: set[str] = set()
        self._ended = False
        return self._observe("Tidy up.", None)

    def step(self, action: Action) -> StepResult:
        assert not self._ended, "step after the end"
        assert action in self._admissible()
        self._steps += 1
        reward, rescored = self._execute(action)
        self._score += reward
        ending = self._ending()
        self._ended = ending is not None
        return StepResult(self._observe(f"You {action.text}.", action.text), reward, ending, rescored)

    def close(self) -> None:
        self.closed = True

    def _execute(self, action: Action) -> tuple[float, bool]:
        if action.template == "take {}":
            self._where[action.entities[0]] = "player"
        elif action.template == "put {} on {}":
            thing, place = action.entities
            self._where[thing] = place
            if self._goals[thing] == place:
                again = thing in self._paid
                self._paid.add(thing)
                return (0.0, True) if again else (1.0, False)
        return 0.0, False

    def _ending(self) -> Ending | None:
        if len(self._paid) == len(self._goals):
            return Ending.WON
        return Ending.TRUNCATED if self._steps >= self.max_steps else None

    def _admissible(self) -> tuple[Action, ...]:
        actions = [Action.from_template("look", [])]
        for thing, place in self._where.items():
            if place == "player":
                actions += [Action.from_template("put {} on {}", [thing, other]) for other in PLACES]
            else:
                actions.append(Action.from_template("take {}", [thing]))
        return tuple(sorted(actions, key=lambda action: action.text))

    def _observe(self, feedback: str, last: str | None) -> Observation:
        triples = [(place, "at", "room") for place in PLACES]
        triples += [(thing, "in" if place == "player" else "on", place) for thing, place in self._where.items()]
        return Observation(
            feedback=feedback,
            description="A room. " + " ".join(f"The {t} is on the {p}." for t, p in self._where.items()),
            inventory="You carry nothing.",
            admissible=self._admissible(),
            graph=StateGraph.of(triples, ["player"]),
            score=self._score,
            max_score=float(len(self._goals)),
            last_action=last,
            game=self._game,
            steps=self._steps,
        )
