"""retain(T): which of the episode's executed actions enter the case memory [P §3, App. D]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbr_retain.config import LastKConfig, TdErrorConfig
from cbrcore import Build, NoSettings
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


class RewardedOnly:
    """The rewarded action "without sampling any of the previous actions" [P App. D]: simple, but it "may fail to
    identify useful actions that were not rewarded"."""

    def __init__(self, config: NoSettings, build: Build) -> None:
        pass

    def __repr__(self) -> str:
        return "RewardedOnly()"

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """The last item."""
        return buffer[-1:]


class TdError:
    """The rewarded action, "together with k - 1 additional pairs sampled from the current trajectory, with a
    probability proportional to the TD error" [P App. D].

    The rewarded action is not drawn: its own TD error is not known yet, since V of the next state is not. Of the
    earlier ones, those without a key (nothing to store) or without a finite TD error cannot be drawn. They are
    drawn one after the other, each in proportion to |delta| among those that are left; where all that is left
    was predicted exactly (delta = 0), each is as likely as any other.
    """

    def __init__(self, config: TdErrorConfig, build: Build) -> None:
        self.k = config.k

    def __repr__(self) -> str:
        return f"TdError(k={self.k})"

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """At most k items, oldest first, the rewarded one last."""
        *earlier, rewarded = buffer
        errors = {place: error for place, item in enumerate(earlier) if (error := _error(item)) is not None}
        drawn: list[int] = []
        while errors and len(drawn) < self.k - 1:
            place = list(errors)[rng.choice(len(errors), p=probabilities(list(errors.values())))]
            drawn.append(place)
            del errors[place]
        return [*(earlier[place] for place in sorted(drawn)), rewarded]


def probabilities(errors: Sequence[float]) -> NDArray[np.float64]:
    """|delta_i| / sum_j |delta_j| for n > 0 finite TD errors; 1 / n if all are zero."""
    sizes = np.abs(np.asarray(errors, dtype=np.float64))
    largest = sizes.max()
    sizes = sizes / largest if largest > 0 else np.ones_like(sizes)  # so that the sum is finite
    shares: NDArray[np.float64] = sizes / sizes.sum()
    return shares


def _error(item: RetainItem) -> float | None:
    """The TD error of an item that can be drawn; None for one that cannot."""
    known = item.td_error is not None and math.isfinite(item.td_error)
    return item.td_error if known and item.key is not None else None
