"""Finite scalar quantization (Mentzer et al. 2023, "Finite Scalar Quantization: VQ-VAE Made Simple")."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbr_fsq.config import FiniteScalarQuantizerConfig
from cbr_keys.checks import finite
from cbr_keys.codes import CodeIndex
from cbr_keys.cosine import unit
from cbr_keys.figures import code_figures, remember
from cbrcore.interfaces import Build

SPREAD = 1e-4
"""A number that varies less than this share of its size is constant: what is left is rounding."""


class FiniteScalarQuantizer(nn.Module):
    """A context becomes D positions between 0 and L - 1; rounded, they are its codes:

        a = (L - 1)/2 (1 + tanh(W sqrt(d) c/||c|| + b))      z^j = round(a_j)      sim = share of equal codes

    There is no codebook, so no entry can die and no loss has to keep contexts near entries.

    Gradients pass straight through the rounding: sim = 1/D sum_j h_j + s_j - stopgrad(s_j), where h_j is 1 for
    equal codes, else 0, and s_j = 1 - |a_j - a'_j|/(L - 1). So the value is exactly the share of equal codes, and
    its gradient moves positions together (or apart) at the same rate however many levels lie between them. A
    stored key stands for the middle of its level, a' = z.

    Shapes: n contexts, d = build.context_dim, D = config.parts, L = config.levels.

    Raises:
        RunFailed: contexts given to a method are not finite.
    """

    recent: Tensor
    seen: Tensor

    def __init__(self, config: FiniteScalarQuantizerConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.dim = build.context_dim
        self.device = build.device
        self.weight = nn.Parameter(torch.randn(config.parts, self.dim) / self.dim**0.5)  # [D, d]
        self.bias = nn.Parameter(torch.zeros(config.parts))
        self.register_buffer("recent", torch.zeros(config.window, config.parts, dtype=torch.long))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.to(build.device)

    def __repr__(self) -> str:
        return f"FiniteScalarQuantizer(levels={self.config.levels}, parts={self.config.parts})"

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Standardise: over contexts [n, d] each projected number gets mean 0 and variance 1, so that all levels
        are in use from the start, also where contexts are much alike. Nothing happens if n is 0."""
        if not len(contexts):
            return
        with torch.no_grad():
            projected = self._projected(contexts)  # [n, D]
            mean = projected.mean(dim=0)
            spread = projected.std(dim=0, correction=0)
            spread = torch.where(spread > SPREAD * (1 + mean.abs()), spread, 1.0)
            self.weight.div_(spread.unsqueeze(1))
            self.bias.sub_(mean).div_(spread)

    def keys(self, contexts: Tensor) -> Tensor:
        """The codes z [n, D] as bytes."""
        with torch.no_grad():
            return self._positions(contexts).round().to(torch.uint8)

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: share of equal codes of context i [n, d] and stored key i [n, D], a constant."""
        return self._agreement(self._positions(contexts), keys.to(contexts.dtype))

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: share of equal codes of contexts left_i and right_i [n, d]; gradients reach both."""
        return self._agreement(self._positions(left), self._positions(right))

    def regularizer(self, contexts: Tensor) -> Tensor:
        """0: without a codebook nothing has to be kept near anything."""
        return contexts.new_zeros(())

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Remember the codes of the update's contexts [n, d] for the figures."""
        remember(self.recent, self.seen, self.keys(contexts).long())

    def index(self) -> CodeIndex:
        """An empty index for this quantizer's codes."""
        return CodeIndex(self.config.parts, self.device)

    def metrics(self) -> Mapping[str, float]:
        """Over the recent contexts of training, each the mean over the D numbers.

        code_usage: the share of the levels in use.
        code_perplexity: the number of equally often used levels that would be as varied.
        """
        return code_figures(self.recent, self.seen, self.config.levels)

    def _projected(self, contexts: Tensor) -> Tensor:
        """W sqrt(d) c/||c|| + b: [n, d] -> [n, D]. The scale of a context does not matter."""
        return F.linear(unit(finite(contexts)) * self.dim**0.5, self.weight, self.bias)

    def _positions(self, contexts: Tensor) -> Tensor:
        """a: [n, d] -> [n, D], between 0 and L - 1."""
        return (self.config.levels - 1) / 2 * (1 + torch.tanh(self._projected(contexts)))

    def _agreement(self, left: Tensor, right: Tensor) -> Tensor:
        """Share of equal codes of positions [n, D], with the gradient of 1 - |a - a'|/(L - 1): [n]."""
        hard = (left.round() == right.round()).to(left.dtype)
        soft = 1 - (left - right).abs() / (self.config.levels - 1)
        return (hard + (soft - soft.detach())).mean(dim=-1)
