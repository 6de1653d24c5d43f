"""Curves over training, from metrics.jsonl: one run -> smoothed, several runs -> a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbr_report.runs import Group, Run, number_at

POINTS = 60
"""Points of a drawn curve."""
WINDOW = 0.05
"""The mean over this share of a run's episodes is drawn."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The mean over runs and one standard deviation to each side, at common numbers of environment steps, those of
    the pretraining among them; [POINTS] each. Of a single run the band has no width. It ends where no episode ever
    was (a share above 1)."""

    x: Values
    mean: Values
    low: Values
    high: Values


def curve_of(group: Group, key: str, *, smooth: bool) -> Curve | None:
    """The group's curve of a key of metrics.jsonl, where all its runs are; None if no run has it."""
    lines = [line for run in group.runs if (line := _line(run, key, smooth=smooth))]
    if not lines:
        return None
    start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    grid = np.linspace(min(start, end), end, POINTS)
    values = np.stack([np.interp(grid, x, y) for x, y in lines])  # [runs, POINTS]
    mean, std = values.mean(axis=0), values.std(axis=0, ddof=1) if len(lines) > 1 else np.zeros(POINTS)
    ever = [number for run in group.runs for row in run.metrics if (number := number_at(row, [key])) is not None]
    return Curve(grid, mean, np.maximum(mean - std, min(ever)), np.minimum(mean + std, max(ever)))


def _line(run: Run, key: str, *, smooth: bool) -> tuple[Values, Values] | None:
    pairs = [
        (steps, value)
        for row in run.metrics
        if (steps := number_at(row, ["env_steps"])) is not None and (value := number_at(row, [key])) is not None
    ]
    if not pairs:
        return None
    x, y = np.array(pairs).T
    x = x + run.pretraining_steps
    y = trailing_mean(y, max(1, round(len(y) * WINDOW))) if smooth else y
    places, at = np.unique(x, return_inverse=True)  # games that are played at the same time end at one step
    return places, np.bincount(at, weights=y) / np.bincount(at)


def trailing_mean(values: Sequence[float] | Values, window: int) -> Values:
    """The mean of each value and the `window` - 1 before it; of fewer at the start."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    found: Values = (sums[ends] - sums[starts]) / (ends - starts)
    return found
