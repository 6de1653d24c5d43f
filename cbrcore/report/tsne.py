"""t-SNE, exact and small, for the map of object vectors [P Fig. 6].

After van der Maaten and Hinton (JMLR 2008): p are the similarities of the given vectors, q those of the map, and
the map descends the gradient of KL(p || q). Everything is [n, n], which is right for some hundred points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbrcore.errors import CbrError

PERPLEXITY = 10.0
STEPS = 750
EXAGGERATED = 200
"""Steps at the start in which p is multiplied by 4, so that clusters form before they spread."""
SEED = 0

Matrix = NDArray[np.float64]


def tsne(vectors: ArrayLike, *, perplexity: float = PERPLEXITY, steps: int = STEPS, seed: int = SEED) -> Matrix:
    """A map in the plane on which similar vectors lie together.

    Args:
        vectors: [n, d], at least four.
        perplexity: about how many neighbours a point has; at most a third of the others.

    Returns:
        [n, 2], centred. The same vectors and seed give the same map.

    Raises:
        CbrError: there are too few vectors, or they are not finite.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 4 or not np.isfinite(rows).all():
        raise CbrError(
            f"t-SNE needs four or more finite vectors, got shape {rows.shape}", hint="give an [n, d] array"
        )
    p = joint_similarities(rows, min(perplexity, (len(rows) - 1) / 3))
    start = np.random.Generator(np.random.PCG64(seed)).normal(scale=1e-4, size=(len(rows), 2))
    return _descend(p, start, steps)


def joint_similarities(rows: Matrix, perplexity: float) -> Matrix:
    """p [n, n]: symmetric, 0 on the diagonal, of sum 1."""
    conditional = np.stack([row_similarities(row, at, perplexity) for at, row in enumerate(distances(rows))])
    joint: Matrix = np.maximum((conditional + conditional.T) / (2 * len(rows)), 1e-12)
    np.fill_diagonal(joint, 0.0)
    return joint


def distances(rows: Matrix) -> Matrix:
    """[n, n]: squared euclidean distances."""
    squares = (rows**2).sum(axis=1)
    found: Matrix = np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0.0)
    return found


def row_similarities(distance: Matrix, at: int, perplexity: float) -> Matrix:
    """p(. | at) [n]: a Gaussian around point `at`, as wide as gives the perplexity exp(entropy), by bisection.

    Args:
        distance: [n], squared distances to the point.
    """
    others = np.arange(len(distance)) != at
    near = distance[others] - distance[others].min()
    scale = max(float(near.mean()), 1e-12)
    low, high = 0.0, np.inf
    beta = 1.0 / scale
    for _ in range(60):
        weights = np.exp(-beta * near)
        shares = weights / weights.sum()
        entropy = np.log(weights.sum()) + beta * float((near * shares).sum())
        if abs(entropy - np.log(perplexity)) < 1e-6:
            break
        if entropy > np.log(perplexity):
            low, beta = beta, beta * 2 if high == np.inf else (beta + high) / 2
        else:
            high, beta = beta, (beta + low) / 2
    found = np.zeros_like(distance)
    found[others] = shares
    return found


def map_similarities(points: Matrix) -> tuple[Matrix, Matrix]:
    """(q [n, n], the weights (1 + distance)^-1 that it is made of)."""
    weights = 1.0 / (1.0 + distances(points))
    np.fill_diagonal(weights, 0.0)
    return weights / weights.sum(), weights


def gradient(p: Matrix, points: Matrix) -> Matrix:
    """[n, 2]: of KL(p || q), 4 sum_j (p_ij - q_ij) (y_i - y_j) (1 + |y_i - y_j|^2)^-1."""
    q, weights = map_similarities(points)
    forces = (p - q) * weights
    found: Matrix = 4 * (forces.sum(axis=1)[:, None] * points - forces @ points)
    return found


def divergence(p: Matrix, points: Matrix) -> float:
    """KL(p || q)."""
    q, _ = map_similarities(points)
    some = p > 0
    return float((p[some] * np.log(p[some] / np.maximum(q[some], 1e-300))).sum())


def _descend(p: Matrix, points: Matrix, steps: int) -> Matrix:
    """Gradient descent with momentum and a gain for each coordinate, as in the paper."""
    rate = max(len(p) / 16.0, 10.0)
    speed, gains = np.zeros_like(points), np.ones_like(points)
    for step in range(steps):
        found = gradient(p * 4.0 if step < EXAGGERATED else p, points)
        turned = np.sign(found) == np.sign(speed)
        gains = np.maximum(np.where(turned, gains * 0.8, gains + 0.2), 0.01)
        speed = (0.5 if step < EXAGGERATED else 0.8) * speed - rate * gains * found
        points = points + speed
        points = points - points.mean(axis=0)
    return points
