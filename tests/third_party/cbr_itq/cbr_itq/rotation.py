"""Principal components, and the rotation that brings their projections closest to signs.

Shapes: n contexts, d = their width, c bits.
"""

from __future__ import annotations

import torch
from torch import Tensor


def signs(values: Tensor) -> Tensor:
    """1 where a value is not negative, else -1, of the same shape and type."""
    return torch.where(values >= 0, 1.0, -1.0).to(values.dtype)


def principal_directions(centred: Tensor, count: int) -> Tensor:
    """W [d, count]: the directions of largest variance of centred contexts [n, d], orthonormal columns."""
    directions: Tensor = torch.linalg.eigh(centred.T @ centred).eigenvectors  # by ascending variance
    return directions.flip(1)[:, :count]


def random_rotation(size: int, generator: torch.Generator) -> Tensor:
    """An orthogonal [size, size] matrix in float64."""
    drawn = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return nearest_rotation(drawn)


def nearest_rotation(matrix: Tensor) -> Tensor:
    """The orthogonal matrix R [c, c] that maximises trace(R^T matrix): orthogonal Procrustes."""
    left, _, right = torch.linalg.svd(matrix)
    rotation: Tensor = left @ right
    return rotation


def learned_rotation(projected: Tensor, start: Tensor, iterations: int) -> Tensor:
    """R [c, c] that makes ||B - V R||_F^2 small, with B = sign(V R) [ITQ §3.2].

    Fix R and B = sign(V R) is best; fix B and the Procrustes solution of V^T B is: two steps, taken in turn,
    neither of which can make the loss larger.

    Args:
        projected: V [n, c].
        start: R to begin with.
    """
    rotation = start
    for _ in range(iterations):
        codes = signs(projected @ rotation)  # B [n, c]
        rotation = nearest_rotation(projected.T @ codes)
    return rotation


def quantization_loss(projected: Tensor, rotation: Tensor) -> float:
    """||sign(V R) - V R||_F^2."""
    rotated = projected @ rotation
    return float((signs(rotated) - rotated).square().sum())
