"""Cosines that are the same number whatever else is computed with them, and a gradient for those below 0.

A matrix product adds in an order that depends on the sizes of the matrices, so the last bit of a cosine depends on
the batch, and two equal keys may not tie. Unit vectors whose coordinates are multiples of 2^-26 have products that
are multiples of 2^-52, and sums below 2: 53 bits, what a double holds. So every sum is exact, in any order.
"""

from __future__ import annotations

import torch
from torch import Tensor

GRID = 2.0**26
SHORTEST = 1e-12
"""A shorter vector counts as zero: it has no direction, and its cosine with anything is 0."""


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """[n]: max(0, cos) of the vectors left_i and right_i [n, d], straight through.

    The value is clamped, the gradient is that of the cosine itself: else two contexts that belong together but
    start with a negative cosine would never be pulled together.
    """
    value = (on_grid(left) * on_grid(right)).sum(dim=-1).clamp(0, 1).float().to(left.dtype)
    raw = (unit(left) * unit(right)).sum(dim=-1)
    return value + (raw - raw.detach())


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """[n, m] float32: max(0, cos) of vectors on the grid, [n, d] with [m, d]."""
    return (left @ right.T).clamp(0, 1).float()


def on_grid(vectors: Tensor) -> Tensor:
    """Vectors [..., d] scaled to length 1 in doubles, coordinates rounded to multiples of 2^-26; no gradient.

    A row's length is added up in doubles. If its last bit depended on the other rows (it does not on a CPU), that
    would move a coordinate to the next multiple once in 10^8 times.
    """
    wide = vectors.detach().double()
    lengths = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)  # [..., 1]
    units = wide / torch.where(lengths > SHORTEST, lengths, torch.inf)
    return (units * GRID).round() / GRID


def unit(vectors: Tensor) -> Tensor:
    """Vectors [..., d] scaled to length 1; zero stays zero, with gradient zero."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(lengths > SHORTEST, lengths, torch.inf)
