"""A bonus for what was seen seldom, added to rewards [Strehl & Littman 2008; Bellemare et al. 2016]."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from cbrcore.types import Observation

log = logging.getLogger(__name__)

NAME = "novelty"
VIEWS, COUNTS = f"{NAME}:views", f"{NAME}:counts"
SEPARATOR = "\n"


class Novelty:
    """weight / sqrt(n) for the n-th time that a view is seen; views are those of an observation's fingerprint.

    Args:
        weight: in points of the game; 0: nothing is counted.
    """

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self._seen: Counter[str] = Counter()
        self._told = False

    def __repr__(self) -> str:
        return f"Novelty({self.weight}, {len(self._seen)} views)"

    def see(self, observation: Observation) -> float:
        """The bonus for coming to an observation; 0 where it has no fingerprint, as at the end of a game."""
        if not self.weight or observation.fingerprint is None:
            return 0.0
        view = observation.fingerprint.view
        self._seen[view] += 1
        return float(self.weight / self._seen[view] ** 0.5)

    def look(self, observation: Observation) -> None:
        """At a state of a game that goes on: if it tells no views the weight does nothing, which is said once."""
        if self.weight and observation.fingerprint is None and not self._told:
            self._told = True
            log.warning("novelty: %g has no effect: the environment tells no views (fingerprints)", self.weight)

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint; nothing if nothing is counted."""
        if not self._seen:
            return {}
        views = SEPARATOR.join(self._seen).encode()
        return {
            VIEWS: torch.tensor(list(views), dtype=torch.uint8),
            COUNTS: torch.tensor(list(self._seen.values())),
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave; others may be among them."""
        self._seen.clear()
        if VIEWS in tensors:
            views = bytes(tensors[VIEWS].tolist()).decode().split(SEPARATOR)
            self._seen.update(dict(zip(views, tensors[COUNTS].tolist(), strict=True)))
