"""TextWorldExpress as an environment of cbr."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from cbrcore import Action, Build, CbrError, Ending, Observation, Places, StateGraph, StepResult, suggest

from cbr_twx.config import TwxConfig
from cbr_twx.engine import Engine, EngineDiedError, find_java
from cbr_twx.reading import PLAYER, Remembered, parse_command, read_places

FIRST_SEED = {"train": 0, "dev": 10_000, "test": 20_000}
"""fold -> the least seed of its games (TextWorldExpress has a thousand in each; a test compares)"""
FURTHER = 500
"""Where `in_fold: train` begins, behind all games that can be trained on."""


class TextWorldExpress:
    """The games of one kind, in one Java process that starts with the first `reset`.

    The splits "train", "in" and "out" are TextWorldExpress's folds train, dev and test (see `TwxConfig.in_fold`).
    A game is made from its seed, and nothing in it is random: every play of it is the same game. Scores go from 0
    to 1.

    Raises:
        CbrError: there is no Java.
    """

    handicaps: Mapping[str, Any]

    def __init__(self, config: TwxConfig, build: Build) -> None:
        self.config = config
        self.handicaps = {
            "commands": "full admissible list, from the engine",
            "look_and_inventory": "told at every step, for no command",
            "state_graph": "read from the texts: the room as it is seen, the others as they were last seen",
        }
        self._java = find_java()
        self._engine: Engine | None = None
        self._remembered = Remembered()
        self._last: Observation | None = None

    def __repr__(self) -> str:
        return f"TextWorldExpress({self.config.game}, {self.config.parameter_text() or 'default parameters'})"

    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return ("train", "in", "out")

    def games(self, split: str) -> tuple[str, ...]:
        """The games of a split; CbrError if there is no such split."""
        if split not in self.splits():
            raise CbrError(f"TextWorldExpress has no split {split!r}", hint=suggest(split, self.splits()))
        fold = {"train": "train", "in": self.config.in_fold, "out": "test"}[split]
        first = FIRST_SEED[fold] + (FURTHER if (split, fold) == ("in", "train") else 0)
        return tuple(
            f"{self.config.game}-{fold}-{seed}" for seed in range(first, first + self.config.games_per_split)
        )

    def game_info(self, game: str) -> Mapping[str, Any]:
        """Facts about a game, for the records. `sha256` is of everything that it is made from."""
        fold, seed = self._fold_and_seed(game)
        made_from = [version("textworld-express"), self.config.game, self.config.parameter_text(), fold, str(seed)]
        return {
            "sha256": hashlib.sha256("\n".join(made_from).encode()).hexdigest(),
            "max_score": 1.0,
            "optimal_steps": None,
            "fold": fold,
            "seed": seed,
            "parameters": dict(self.config.parameters),
            "textworld_express": made_from[0],
        }

    def places(self, observation: Observation) -> Places:
        """The map that the observation's graph holds."""
        return read_places(observation.graph.triples)

    def reset(self, game: str, seed: int) -> Observation:
        """Start `game` anew; it is the same for every `seed`."""
        fold, number = self._fold_and_seed(game)
        self._engine = self._engine or Engine(self._java)
        try:
            infos = self._engine.reset(self.config.game, self.config.parameter_text(), fold, number)
        except EngineDiedError as error:
            self.close()
            raise CbrError(
                f"TextWorldExpress died while it made {game}: {error}", hint="start the run again"
            ) from error
        self._remembered = Remembered()
        self._last = self._observe(infos, game=game, feedback=infos["taskDescription"], steps=0)
        return self._last

    def step(self, action: Action) -> StepResult:
        """Carry out an action. If Java fails, the episode is over, and the next one has a new Java."""
        if self._engine is None or self._last is None:
            raise RuntimeError("no game was started: call reset() before step()")
        before = self._last
        try:
            infos = self._engine.step(action.text)
        except EngineDiedError:
            self.close()
            return StepResult(before, 0.0, Ending.ENGINE_ERROR)
        self._last = self._observe(
            infos, game=before.game, feedback=infos["observation"], steps=before.steps + 1, command=action.text
        )
        reward = self._last.score - before.score
        return StepResult(self._last, reward, self._ending(infos, self._last.steps))

    def close(self) -> None:
        """End Java; a later reset starts it again."""
        engine, self._engine, self._last = self._engine, None, None
        if engine is not None:
            engine.close()

    def _fold_and_seed(self, game: str) -> tuple[str, int]:
        kind, _, rest = game.partition("-")
        fold, _, seed = rest.partition("-")
        if kind != self.config.game or fold not in FIRST_SEED or not seed.isdecimal():
            raise CbrError(f"TextWorldExpress has no game {game!r}", hint=f"as in {self.games('train')[0]!r}")
        return fold, int(seed)

    def _ending(self, infos: Mapping[str, Any], steps: int) -> Ending | None:
        if infos["taskfailure"]:
            return Ending.LOST
        if infos["tasksuccess"] or infos["score"] >= 1.0:
            return Ending.WON
        return Ending.TRUNCATED if steps >= self.config.max_steps else None

    def _observe(
        self, infos: Mapping[str, Any], *, game: str, feedback: str, steps: int, command: str | None = None
    ) -> Observation:
        look, inventory = infos["look"].strip(), infos["inventory"].strip()
        actions = tuple(parse_command(text) for text in sorted(set(infos["validActions"])))
        names = {name for action in actions for name in action.entities}
        triples = self._remembered.take_in(look, inventory, names)
        scored = self._last.scored if command and self._last else ()
        rose = bool(command and self._last and infos["score"] > self._last.score)
        return Observation(
            feedback=feedback.strip(),
            description=look,
            inventory=inventory,
            admissible=actions,
            graph=StateGraph.of(triples, {PLAYER, *names}),
            score=float(infos["score"]),
            max_score=1.0,
            scored=(*scored, command) if rose and command else scored,
            last_action=command,
            game=game,
            steps=steps,
        )
