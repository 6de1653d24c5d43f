"""The explorer: return to a case, explore from there, retain what is new or shorter.

Go-Explore (Ecoffet et al., Nature 590, 2021) returns to cells of an archive and explores from them; here the
archive is a case base: a case is a place to start from, and is retrieved, reused, revised and retained.
Returning is a replay from the start, and its steps count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbr_explorer.config import ExplorerConfig
from cbr_explorer.episode import ExplorerReuse
from cbr_explorer.memory import GameMemory
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, KeepsState, ReusePolicy, TellsFacts, TellsHandicaps

PHASES = ("return", "explore", "exploit", "fallback")
"""What a step is good for: replay on the way to a case; news; replay of the best case; none of these."""
HANDICAPS = {
    "start": "cases are returned to by reset and replay, and replayed steps count",
    "archive": "kept over the episodes of training",
}


class Explorer:
    """A reuse policy (`cbrcore.interfaces.ReusePolicy`). Its archive is kept in checkpoints, and what its fallback
    keeps as well; their handicaps are told together."""

    def __init__(self, config: ExplorerConfig, build: Build) -> None:
        self.config, self.places, self.seed = config, build.places, build.seed
        self.fallback: ReusePolicy | None = build.make("fallback", build) if config.fallback else None
        others = self.fallback.handicaps if isinstance(self.fallback, TellsHandicaps) else {}
        self.handicaps: Mapping[str, Any] = {**others, **HANDICAPS}
        self.games: dict[str, GameMemory] = {}
        self.steps, self._episodes = 0, 0
        self._phases = dict.fromkeys(PHASES, 0)

    def __repr__(self) -> str:
        return f"Explorer({self.games})"

    def begin(self, retriever: Retriever | None, *, learning: bool) -> ExplorerReuse:
        fallback = None
        if self.fallback is not None:
            if retriever is None:
                raise CbrError(
                    "the explorer's fallback needs a case memory", hint="add 'memory: {}' to the recipe"
                )
            fallback = self.fallback.begin(retriever, learning=learning)
        return ExplorerReuse(self, fallback, learning=learning)

    def memory(self, game: str, *, learning: bool = True) -> GameMemory:
        """What is known of a game; a new game is kept where it is learned from."""
        known = self.games.get(game) or GameMemory(self.config)
        return self.games.setdefault(game, known) if learning else known

    @property
    def explored(self) -> bool:
        """Whether the steps for exploring are used up."""
        return self.config.explore_steps is not None and self.steps >= self.config.explore_steps

    def count_episode(self, *, learning: bool) -> int:
        """The number of the episode that begins; 0 for one of an evaluation."""
        self._episodes += learning
        return self._episodes if learning else 0

    def count_step(self, phase: str) -> None:
        """A step of the training."""
        self.steps += 1
        self._phases[phase] += 1

    def metrics(self) -> dict[str, float]:
        """Since the training began, over all games.

        return_steps: steps on the way back to a case.
        explore_steps: steps that look for news from there.
        exploit_steps: steps that repeat the best case.
        fallback_steps: steps of the fallback and of the neural agent.
        replayed_steps: steps that repeat a case's commands, for returning or for exploiting.
        start_cases: cases in memory.
        best_so_far: the highest score of a case or an end.
        """
        best = [memory.archive.best[0] for memory in self.games.values() if memory.archive.best]
        return {
            **{f"{phase}_steps": float(count) for phase, count in self._phases.items()},
            "replayed_steps": float(self._phases["return"] + self._phases["exploit"]),
            "start_cases": float(sum(len(memory.archive.cases) for memory in self.games.values())),
            "best_so_far": max(best, default=0.0),
        }

    def facts(self) -> dict[str, Any]:
        """For the results."""
        return {
            "steps": dict(self._phases),
            "games": {game: memory.facts() for game, memory in sorted(self.games.items())},
            **({"fallback": dict(self.fallback.facts())} if isinstance(self.fallback, TellsFacts) else {}),
        }

    def state(self) -> dict[str, Any]:
        games = {game: memory.state() for game, memory in self.games.items()}
        sequences = [
            {"game": game, **each} for game, memory in self.games.items() for each in memory.sequences()
        ]  # for `cbr cases --sequences`
        own = {"steps": self.steps, "episodes": self._episodes, "phases": self._phases}
        own |= {"fallback": self.fallback.state()} if isinstance(self.fallback, KeepsState) else {}
        return {"games": games, **own, "sequences": sequences}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.steps, self._episodes = state["steps"], state["episodes"]
        self._phases = dict(state["phases"])
        if isinstance(self.fallback, KeepsState):
            self.fallback.load_state(state["fallback"])
        self.games = {}
        for game, known in state["games"].items():
            self.memory(game).load_state(known)
