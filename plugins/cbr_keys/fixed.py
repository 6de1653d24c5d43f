"""What a quantizer has to do when it has nothing to learn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cbr_keys.checks import finite
from cbr_keys.cosine import cosine


class FixedQuantizer(nn.Module):
    """The half of the `Quantizer` protocol that is about learning: nothing happens, no loss, no figures."""

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Nothing to initialise from data."""

    def regularizer(self, contexts: Tensor) -> Tensor:
        """0."""
        return contexts.new_zeros(())

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Nothing to keep up."""

    def metrics(self) -> Mapping[str, float]:
        """None."""
        return {}


class ContinuousKeys(FixedQuantizer):
    """key(c) = c, and sim(c, c') = max(0, cos(c, c')); how keys are found is left to the index."""

    def keys(self, contexts: Tensor) -> Tensor:
        """The contexts [n, d] as constants."""
        return finite(contexts).detach().float()

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: max(0, cos) of context i [n, d] and stored key i [n, d], a constant."""
        return cosine(finite(contexts), keys)

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: max(0, cos) of contexts left_i and right_i [n, d]; gradients reach both."""
        return cosine(finite(left), finite(right))
