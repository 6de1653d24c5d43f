"""What a quantizer has to do when it has nothing to learn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


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
