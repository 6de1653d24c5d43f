"""Keys by a fixed random projection, as it is or its signs [P App. C]."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cbr_keys.checks import finite
from cbr_keys.codes import CodeIndex
from cbr_keys.cosine import cosine, unit
from cbr_keys.fixed import FixedQuantizer
from cbr_keys.vectors import CosineIndex
from cbr_projection.config import RandomProjectionConfig, SignRandomProjectionConfig
from cbrcore.interfaces import Build
from cbrcore.rng import Streams


class RandomProjection(FixedQuantizer):
    """key(c) = R c, with entries R_ij drawn from N(0, 1/p), and sim(c, c') = max(0, cos(R c, R c')).

    R is not trained; it is a buffer, so a checkpoint holds it.

    Shapes: n contexts, d = build.context_dim, p = config.size.

    Raises:
        RunFailed: contexts given to a method are not finite.
    """

    projection: Tensor

    def __init__(self, config: RandomProjectionConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.device = build.device
        self.register_buffer("projection", random_matrix(config.size, build))  # [p, d]

    def __repr__(self) -> str:
        return f"RandomProjection(size={self.config.size})"

    def keys(self, contexts: Tensor) -> Tensor:
        """R c [n, p] as constants."""
        return self._projected(contexts).detach().float()

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: max(0, cos) of the projection of context i [n, d] and stored key i [n, p], a constant."""
        return cosine(self._projected(contexts), keys)

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: max(0, cos) of the projections of contexts left_i and right_i [n, d]; gradients reach both."""
        return cosine(self._projected(left), self._projected(right))

    def index(self) -> CosineIndex:
        """An empty index for projections."""
        return CosineIndex(self.config.size, self.device)

    def _projected(self, contexts: Tensor) -> Tensor:
        """R c: [n, d] -> [n, p]."""
        return F.linear(finite(contexts), self.projection)


class SignRandomProjection(FixedQuantizer):
    """key(c) = sign(R c), with 0 counted as positive, and sim = the share of equal signs.

    Gradients pass straight through, as in the KD codes [P §4.2]: with t = tanh(sqrt(p) R c/||c||) the output is
    o = sign(R c) + t - stopgrad(t), and sim = 1/p sum_j (1 + o_j o'_j)/2. The value is exactly the share of equal
    signs, and its gradient that of the soft signs. sqrt(p) R c/||c|| has coordinates of variance 1.

    Shapes: n contexts, d = build.context_dim, p = config.size.

    Raises:
        RunFailed: contexts given to a method are not finite.
    """

    projection: Tensor

    def __init__(self, config: SignRandomProjectionConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.device = build.device
        self.register_buffer("projection", random_matrix(config.size, build))  # [p, d]

    def __repr__(self) -> str:
        return f"SignRandomProjection(size={self.config.size})"

    def keys(self, contexts: Tensor) -> Tensor:
        """The signs [n, p] as bytes: 1 for positive, 0 for negative."""
        return (self._projected(contexts) >= 0).to(torch.uint8)

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: share of equal signs of context i [n, d] and stored key i [n, p], a constant."""
        return self._agreement(self._outputs(contexts), 2 * keys.to(contexts.dtype) - 1)

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: share of equal signs of contexts left_i and right_i [n, d]; gradients reach both."""
        return self._agreement(self._outputs(left), self._outputs(right))

    def index(self) -> CodeIndex:
        """An empty index for signs."""
        return CodeIndex(self.config.size, self.device)

    def _projected(self, contexts: Tensor) -> Tensor:
        """sqrt(p) R c/||c||: [n, d] -> [n, p]."""
        return math.sqrt(self.config.size) * F.linear(unit(finite(contexts)), self.projection)

    def _outputs(self, contexts: Tensor) -> Tensor:
        """o = sign + t - stopgrad(t), [n, p]."""
        projected = self._projected(contexts)
        hard = 2 * (projected >= 0).to(projected.dtype) - 1
        soft = torch.tanh(projected)
        return hard + (soft - soft.detach())

    def _agreement(self, left: Tensor, right: Tensor) -> Tensor:
        """Mean over the p signs [n, p] of 1 where they are equal, else 0: [n]."""
        return ((1 + left * right) / 2).mean(dim=-1)


def random_matrix(size: int, build: Build) -> Tensor:
    """R [p, d] with entries from N(0, 1/p), which keeps lengths in expectation; the same for the same seed of the
    run, whatever else is drawn."""
    generator = Streams(build.seed).torch("random-projection")
    entries = torch.randn(size, build.context_dim, generator=generator) / math.sqrt(size)
    return entries.to(build.device)
