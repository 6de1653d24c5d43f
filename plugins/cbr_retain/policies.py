"""retain(T): which of the episode's executed actions enter the case memory [P §3, App. E]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbr_retain.config import LastKConfig
from cbrcore import Build
from cbrcore.interfaces import RetainItem


class LastK:
    """The k most recent actions, the rewarded one included: earlier steps often make the reward possible."""

    def __init__(self, config: LastKConfig, build: Build) -> None:
        self.k = config.k

    def __repr__(self) -> str:
        return f"LastK(k={self.k})"

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """The last k items, oldest first."""
        return buffer[-self.k :]
