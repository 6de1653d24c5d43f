"""Scores of commands."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbrcore.interfaces import AgentInput


class CommandScorer(nn.Sequential):
    """The MLP that scores a command from `parts` vectors of `width` side by side and, if any, its own features.

    Args:
        features: e, `Build.action_features`; 0: commands have none.
    """

    def __init__(self, parts: int, width: int, features: int = 0) -> None:
        super().__init__(nn.Linear(parts * width + features, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, vectors: Sequence[Tensor], features: Tensor | None = None) -> Tensor:
        """vectors: `parts` times [..., width], features [..., e] -> [...]."""
        together = torch.cat([*vectors, *([] if features is None else [features])], dim=-1)
        scores: Tensor = super().forward(together)  # type: ignore[no-untyped-call]
        return scores.squeeze(-1)


def features_of(inputs: Sequence[AgentInput]) -> Tensor | None:
    """The features of all inputs' commands [sum A, e], input by input; None for an agent built without them."""
    given = [item.action_features for item in inputs if item.action_features is not None]
    return torch.cat(given) if given else None
