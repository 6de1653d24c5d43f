"""The contrastive loss in our reading: together if rewarded, apart if not."""

from __future__ import annotations

import pytest
import torch

from cbr_a2c.contrastive import contrastive_loss


@pytest.mark.parametrize(
    ("similarity", "dissimilar", "expected"),
    [
        (1.0, 0, 0.0),  # rewarded and equal: nothing to do
        (0.4, 0, 0.5 * 0.6**2),  # rewarded but apart: pulled together
        (1.0, 1, 0.5 * 0.5**2),  # failed though equal: pushed apart
        (0.8, 1, 0.5 * 0.3**2),
        (0.5, 1, 0.0),  # distance 0.5 = margin: far enough
        (0.1, 1, 0.0),
    ],
)
def test_loss_by_hand(similarity, dissimilar, expected):
    loss = contrastive_loss(torch.tensor([similarity]), torch.tensor([float(dissimilar)]), margin=0.5)
    assert float(loss) == pytest.approx(expected)


def test_gradients_pull_rewarded_pairs_together_and_push_failed_ones_apart():
    similarity = torch.tensor([0.8, 0.8], requires_grad=True)
    contrastive_loss(similarity, torch.tensor([0.0, 1.0]), margin=0.5).sum().backward()
    rewarded, failed = similarity.grad.tolist()
    assert rewarded < 0 < failed  # gradient descent raises the first similarity and lowers the second
