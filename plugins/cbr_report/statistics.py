"""Statistics over runs that differ in their seed alone. One number per run goes in; no run is repeated.

Means and standard deviations are the paper's; the interquartile mean, bootstrap intervals and the probability of
improvement are those of Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice"
(NeurIPS 2021), which say more with a handful of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
FOR_INTERVAL, FOR_MIDDLE, FOR_PAIRS = 3, 4, 2
"""Runs that an interval needs, an interquartile mean that leaves any out, and either side of a comparison."""
RESAMPLES = 5000
SEED = 0


@dataclass(frozen=True)
class Summary:
    """What the runs of one cell say about one number.

    Attributes:
        std: sample standard deviation over the runs; None for a single run.
        iqm: mean of the middle half; of fewer than four runs their mean.
        low, high: bootstrap interval of `iqm`; None for fewer than three runs.
    """

    runs: int
    mean: float
    std: float | None
    iqm: float
    low: float | None
    high: float | None


def summarize(values: Sequence[float]) -> Summary | None:
    """All of it for one number per run; None without runs."""
    if not values:
        return None
    interval = bootstrap_interval(values)
    return Summary(
        runs=len(values),
        mean=float(np.mean(values)),
        std=standard_deviation(values),
        iqm=float(interquartile_mean(values)),
        low=interval and interval[0],
        high=interval and interval[1],
    )


def standard_deviation(values: Sequence[float]) -> float | None:
    """Of a sample (divided by n - 1), as the paper's tables; None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def interquartile_mean(values: ArrayLike) -> NDArray[np.float64]:
    """The mean of the middle half: a quarter of the values, rounded down, is left out at each end.

    With fewer than four values nothing is left out.

    Args:
        values: [..., n].

    Returns:
        [...]
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    middle: NDArray[np.float64] = ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
    return middle


def bootstrap_interval(
    values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float] | None:
    """Percentile bootstrap of the interquartile mean: runs are drawn with replacement, as many as there are.

    The seed is fixed, so the same runs give the same interval on every page. None for one or two runs, which say
    next to nothing about the next one: of two, the interval would be from one to the other.
    """
    if len(values) < FOR_INTERVAL:
        return None
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = rng.integers(len(values), size=(resamples, len(values)))  # [B, n]
    found = interquartile_mean(np.asarray(values, dtype=np.float64)[drawn])  # [B]
    tail = (1 - level) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return float(low), float(high)


def probability_of_improvement(ours: Sequence[float], theirs: Sequence[float], *, better: str) -> float | None:
    """P(a run of ours is better than a run of theirs): the share of all pairs of runs; a tie counts half.

    Args:
        better: "lower" or "higher", as in the paper's file of numbers.

    Returns:
        None if either has a single run, or none.
    """
    if min(len(ours), len(theirs)) < FOR_PAIRS:
        return None
    lead = np.subtract.outer(np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64))
    if better == "lower":
        lead = -lead
    return float(((lead > 0) + 0.5 * (lead == 0)).mean())
