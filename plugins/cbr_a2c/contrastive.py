"""The retriever's contrastive loss [P §5], after Hadsell et al. (2006)."""

from __future__ import annotations

from torch import Tensor


def contrastive_loss(similarity: Tensor, dissimilar: Tensor, *, margin: float) -> Tensor:
    """L_r = 1/2 (1 - y)(1 - sim)^2 + 1/2 y max(0, mu - 1 + sim)^2, per pair.

    As printed the paper sets y = 1 for a rewarded step, which pushes rewarded pairs apart, against the
    sentence that follows the equation. We read it in Hadsell's convention: y = 0 for pairs that belong
    together (the reused action was rewarded), y = 1 for pairs that do not.

    Args:
        similarity: sim in [0, 1], [n].
        dissimilar: y, 0 or 1, [n].
        margin: mu; a dissimilar pair costs nothing once its distance 1 - sim is at least mu.

    Returns:
        The loss of each pair, [n].
    """
    together = 0.5 * (1 - dissimilar) * (1 - similarity).square()
    apart = 0.5 * dissimilar * (margin - 1 + similarity).clamp(min=0).square()
    return together + apart
