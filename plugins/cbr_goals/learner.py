"""A learner around another one: fits the evidence to what was tried, every so many plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cbr_goals.config import FitConfig
from cbr_goals.memory import EvidenceMemory
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Learner, Stopwatch
from cbrcore.types import Transition

if TYPE_CHECKING:
    from cbrcore.config import TrainingConfig
    from cbrcore.cycle.reasoner import CaseBasedReasoner
    from cbrcore.rng import Streams

PLAYS = "goals:plays"


class Fit:
    """Trains the agent as the learner within does; the weights of kernel and evidence are fitted in between."""

    def __init__(self, config: FitConfig, build: Build) -> None:
        self.every = config.every
        self.inner: Learner = build.make("learner", build)
        self._plays = 0
        self._due = False

    def __repr__(self) -> str:
        return f"Fit(every={self.every}, {self.inner!r})"

    @property
    def skipped(self) -> int:
        """Updates of the learner within that were skipped."""
        return self.inner.skipped

    def begin(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        memory = players[0].retriever.memory if players[0].retriever else None
        if not isinstance(memory, EvidenceMemory):
            raise CbrError("fit needs the memory cbr_goals/evidence", hint="memory: {use: cbr_goals/evidence}")
        self._memory, self._clock = memory, clock
        self.inner.begin(players, training, streams, clock)

    def took_step(self, seat: int, transition: Transition) -> None:
        self.inner.took_step(seat, transition)
        if transition.result.ending is not None:
            self._plays += 1
            self._due = self._due or self._plays % self.every == 0

    def round_of_steps_done(self) -> None:
        """The learner's own round; then the fit, if it is due."""
        self.inner.round_of_steps_done()
        if self._due:
            self._due = False
            with self._clock.part("learner"):
                self._memory.fit()

    def pop_losses(self) -> Mapping[str, float | None]:
        return self.inner.pop_losses()

    def tensors(self) -> Mapping[str, Tensor]:
        return {**self.inner.tensors(), PLAYS: torch.tensor(self._plays)}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self._plays = int(tensors[PLAYS])
        self.inner.load_tensors(tensors)
