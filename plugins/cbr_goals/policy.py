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

from collections.abc import Mapping
from typing import Any

from cbr_goals.atlas import Atlas, Recall
from cbr_goals.config import GoalsConfig
from cbr_goals.effects import Effects
from cbr_goals.episode import GoalsReuse
from cbr_goals.memory import EvidenceMemory
from cbr_goals.steps import LOOKS
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.rng import derive_seed, generator
from cbrcore.types import Decision


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
        alone = learning and self._plays <= self.config.random_plays
        recall = self.recall(learning=learning)
        return GoalsReuse(self, retriever, retriever.memory, recall, learning=learning, alone=alone)

    def recall(self, *, learning: bool) -> Recall | None:
        """What an episode knows of earlier ones' maps."""
        return None

    def took(self, decision: Decision) -> None:
        """A step of the training."""

    def explores(self, *, alone: bool) -> bool:
        """Whether the agent takes this step of the training, whatever the cases say: always in the first plays,
        where it is `alone`, then by chance, which depends on the seed and the number of the step only."""
        self._steps += 1
        drawn = generator(derive_seed(self._seed, f"explore:{self._steps}")).random()
        return bool(alone or drawn < self.config.explore)

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

    def took(self, decision: Decision) -> None:
        """Count it by what it was good for."""
        self.taken["steps"] += 1
        if decision.chosen is not None:
            self.taken["unseen" if decision.chosen.why == LOOKS else "goals"] += 1

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
