"""The 2-layer network of the context encoders."""

from __future__ import annotations

from torch import nn


class FeedForward(nn.Sequential):
    """FFN: "a 2-layer feed-forward network with ReLU non-linearity" [P §4.1, App. G], [n, inputs] -> [n, dim].

    It starts as two orthogonal maps, so that what differs before it differs after it too; the first is
    scaled by sqrt(2) because the ReLU halves the squared length.
    """

    def __init__(self, inputs: int, dim: int) -> None:
        first, second = nn.Linear(inputs, dim), nn.Linear(dim, dim)
        super().__init__(first, nn.ReLU(), second)
        nn.init.orthogonal_(first.weight, 2**0.5)
        nn.init.orthogonal_(second.weight)
        nn.init.zeros_(first.bias)
        nn.init.zeros_(second.bias)
