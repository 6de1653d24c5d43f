"""The two losses: temporal differences of the agent, the contrastive one of a retriever."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def td_targets(rewards: Sequence[float], following: Sequence[Tensor | None], *, gamma: float) -> Tensor:
    """y = r + gamma max_a' Q(s', a'), [n]; y = r where nothing follows.

    Args:
        following: Q(s', .) [A'] over the next admissible actions; None at an ending.
    """
    best = torch.stack([torch.zeros(()) if values is None else values.max().cpu() for values in following])
    return torch.tensor(rewards, dtype=best.dtype) + gamma * best


def contrastive_loss(similarity: Tensor, failed: Tensor, *, margin: float) -> Tensor:
    """1/2 (1 - y)(1 - sim)^2 + 1/2 y max(0, margin - (1 - sim))^2, [n], as in cbr's own learner [its paper, §5].

    Args:
        similarity: of the context in which a case was reused and its key, [n].
        failed: y = 1 where that earned nothing, [n].
    """
    distance = 1 - similarity
    together = 0.5 * (1 - failed) * distance.square()
    return together + 0.5 * failed * (margin - distance).clamp(min=0).square()
