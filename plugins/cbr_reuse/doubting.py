"""The paper's rule, but now and then the agent acts although a case fits: what no case tells can be found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cbr_reuse.config import DoubtingConfig
from cbr_reuse.most_relevant import MostRelevant, MostRelevantReuse, ReadsPlaces
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import Build
from cbrcore.rng import derive_seed
from cbrcore.types import Action, Candidate


class Doubting(MostRelevant):
    """A reuse policy. Its draws come from a stream of their own, which is part of a checkpoint."""

    config: DoubtingConfig

    def __init__(self, config: DoubtingConfig, build: Build) -> None:
        super().__init__(config, build)
        self._rng = np.random.default_rng(derive_seed(build.seed, "doubt"))

    def __repr__(self) -> str:
        return f"Doubting({self.config})"

    def begin(self, retriever: Retriever, *, learning: bool) -> MostRelevantReuse:
        """One episode; without `learning` no case is doubted."""
        if not learning:
            return super().begin(retriever, learning=learning)
        return DoubtingReuse(retriever, self.config, self.places, self._rng)

    def state(self) -> dict[str, Any]:
        """Of the stream."""
        return {"rng": self._rng.bit_generator.state}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on with the stream."""
        self._rng.bit_generator.state = state["rng"]


class DoubtingReuse(MostRelevantReuse):
    """One episode of it while the agent learns."""

    def __init__(
        self, retriever: Retriever, config: DoubtingConfig, places: ReadsPlaces | None, rng: np.random.Generator
    ) -> None:
        super().__init__(retriever, config, places)
        self._doubt, self._rng = config.doubt, rng

    def choose(self, candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
        """Revise as ever; then, in a share of the steps, think nothing of it."""
        chosen = super().choose(candidates, probability)
        return None if chosen is not None and self._rng.random() < self._doubt else chosen
