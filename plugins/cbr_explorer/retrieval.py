"""Retrieve: which case an episode starts from."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from cbr_explorer.archive import Cell
from cbr_explorer.config import ExplorerConfig
from cbr_explorer.memory import GameMemory

LEAST = 0.01
"""What counts where no news is in sight, and where no steps are left."""


def score_novelty(memory: GameMemory, config: ExplorerConfig, rng: random.Random) -> int | None:
    """A level of score is drawn, the best one most often, then one of its cells by what it promises; it is
    counted.

    A level weighs `score_decay` for each level above it, and its share of 1 besides: what was passed by on the way
    to the best score is looked for, too, however many levels there are.
    """
    levels = sorted({score for score, _, _ in memory.archive.cells}, reverse=True)
    if not levels:
        return None
    level = rng.choices(levels, [config.score_decay**rank + 1 / len(levels) for rank in range(len(levels))])[0]
    cells = [cell for cell in memory.archive.cells if cell[0] == level]
    weights = [promise(memory, cell) for cell in cells]
    cell = rng.choices(cells, weights)[0]
    counts = memory.counts
    counts.cells[cell] = counts.cells.get(cell, 0) + 1
    counts.loads[cell[:2]] = counts.loads.get(cell[:2], 0) + 1
    return memory.archive.cells[cell]


def promise(memory: GameMemory, cell: Cell) -> float:
    """The news that may lie ahead of a cell's case: more with more things to use and more steps left, less the
    more often the cell, or any with the same score and things, was started from::

        (V + 0.01) sqrt(1 + things carried) left / sqrt((1 + of the cell) (1 + of the load))

    left is the share of an episode's steps that remains there, as far as an episode was cut off before.
    """
    number, counts = memory.archive.cells[cell], memory.counts
    case = memory.archive.cases[number]
    left = 1.0 if memory.horizon is None else max(LEAST, 1 - memory.length(number) / memory.horizon)
    ahead = (memory.news.value(case.view) + LEAST) * (1 + case.carried) ** 0.5 * left
    return float(ahead / ((1 + counts.cells.get(cell, 0)) * (1 + counts.loads.get(cell[:2], 0))) ** 0.5)


def uniform(memory: GameMemory, config: ExplorerConfig, rng: random.Random) -> int | None:
    """Every case that is not dominated is equally likely."""
    cells = list(memory.archive.cells.values())
    return rng.choice(cells) if cells else None


def last(memory: GameMemory, config: ExplorerConfig, rng: random.Random) -> int | None:
    """The case that was retained last."""
    return len(memory.archive.cases) - 1 if memory.archive.cases else None


RETRIEVALS: Mapping[str, Callable[[GameMemory, ExplorerConfig, random.Random], int | None]] = {
    "score_novelty": score_novelty,
    "uniform": uniform,
    "last": last,
}
"""Setting `retrieval` -> what draws a case."""
