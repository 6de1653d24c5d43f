"""k-means for all codebooks at once: where the entries start."""

from __future__ import annotations

import torch
from torch import Tensor


def kmeans(samples: Tensor, count: int, *, iterations: int, generator: torch.Generator) -> Tensor:
    """Centres of each part's samples.

    Args:
        samples: [D, n, w], n >= 1.
        count: K; if a part has fewer distinct samples, the centres left over lie around them.
        iterations: most rounds of Lloyd's algorithm.
        generator: a CPU generator; the same state gives the same centres.

    Returns:
        [D, K, w].
    """
    centres = _spread_out(samples, count, generator)
    codes = nearest(samples, centres)
    for _ in range(iterations):
        centres = _means(samples, codes, centres)
        before, codes = codes, nearest(samples, centres)
        if torch.equal(before, codes):
            break
    return centres


def nearest(samples: Tensor, centres: Tensor) -> Tensor:
    """argmin_i ||x - k_i||^2 for samples [D, n, w] and centres [D, K, w]: [D, n]; the lower i if two tie."""
    return squared_distances(samples, centres).argmin(dim=-1)


def squared_distances(samples: Tensor, centres: Tensor) -> Tensor:
    """||x - k_i||^2 for samples [D, n, w] and centres [D, K, w]: [D, n, K]; differences first, so that it is exact
    where they are small."""
    return torch.cdist(samples, centres, compute_mode="donot_use_mm_for_euclid_dist").square()


def _means(samples: Tensor, codes: Tensor, centres: Tensor) -> Tensor:
    """The mean of each centre's samples; a centre without samples stays where it is. [D, K, w]"""
    rows = codes.unsqueeze(-1).expand_as(samples)  # [D, n, w]
    sums = torch.zeros_like(centres).scatter_add(1, rows, samples)
    counts = torch.zeros_like(centres).scatter_add(1, rows, torch.ones_like(samples))
    return torch.where(counts > 0, sums / counts, centres)


def _spread_out(samples: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """k-means++: each next centre is a sample, drawn in proportion to its squared distance to the nearest centre.

    Where every sample is a centre already, the next one is a sample moved by the part's standard deviation.
    """
    parts, n, width = samples.shape
    deviation = (samples - samples.mean(dim=1, keepdim=True)).square().mean(dim=(1, 2)).sqrt()  # [D]
    deviation = torch.where(deviation > 0, deviation, 1.0).unsqueeze(1)
    uniform = samples.new_ones(parts, n)
    distances = samples.new_full((parts, n), torch.inf)
    centres: list[Tensor] = []
    for _ in range(count):
        weights = uniform if not centres else distances
        covered = weights.sum(dim=1, keepdim=True) == 0  # [D, 1]
        chosen = torch.multinomial(torch.where(covered, uniform, weights).cpu(), 1, generator=generator)
        noise = torch.randn(parts, width, generator=generator).to(samples.device)
        sample = samples[torch.arange(parts), chosen.squeeze(1).to(samples.device)]  # [D, w]
        centres.append(torch.where(covered, sample + deviation * noise, sample))
        distances = torch.minimum(distances, squared_distances(samples, centres[-1].unsqueeze(1)).squeeze(-1))
    return torch.stack(centres, dim=1)
