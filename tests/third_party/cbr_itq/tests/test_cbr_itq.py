"""ITQ keeps the contract of a quantizer, and is what the paper says."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from cbr_itq.config import IterativeQuantizerConfig
from cbr_itq.quantizer import IterativeQuantizer
from cbr_itq.rotation import learned_rotation, principal_directions, quantization_loss, random_rotation, signs
from torch import Tensor

from cbrcore import Build, CbrError
from cbrcore.testing import DIM, QuantizerSuite

IDENTITY = torch.eye(2, dtype=torch.float64)
CORNERS = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)


def turned(degrees: float) -> Tensor:
    """The rotation [2, 2] of row vectors."""
    angle = math.radians(degrees)
    return torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()


def test_a_square_that_was_turned_is_turned_back_by_hand():
    """Corners of a square, turned by 30 degrees: (1, 1) lies at (0.366, 1.366), still in its quadrant.

    With R = I each corner is off by (1 - 0.366)^2 + (1 - 1.366)^2 = 0.402 + 0.134 = 0.536, four of them by 2.144.
    The signs are the corners, so one Procrustes step turns back by 30 degrees, and nothing is left of the loss.
    """
    projected = CORNERS @ turned(30)
    torch.testing.assert_close(projected[0], torch.tensor([0.366, 1.366]).double(), atol=1e-3, rtol=0)
    assert quantization_loss(projected, IDENTITY) == pytest.approx(2.144, abs=1e-3)
    rotation = learned_rotation(projected, IDENTITY, iterations=1)
    torch.testing.assert_close(rotation, turned(-30))
    assert quantization_loss(projected, rotation) == pytest.approx(0, abs=1e-12)


def test_principal_directions_by_hand():
    """Variance along (3, 4) / 5 alone, then a little along (4, -3) / 5."""
    contexts = torch.tensor([[3.0, 4.0], [-3.0, -4.0], [0.4, -0.3], [-0.4, 0.3]]).double()
    found = principal_directions(contexts, 2)
    expected = torch.tensor([[0.6, 0.8], [0.8, -0.6]]).double()
    torch.testing.assert_close((found * expected).sum(dim=0).abs(), torch.ones(2).double())


def test_no_step_makes_the_loss_larger_and_the_rotation_is_orthogonal():
    drawn = torch.Generator().manual_seed(0)
    projected = torch.randn(200, 8, generator=drawn, dtype=torch.float64)
    rotation = random_rotation(8, drawn)
    losses = [quantization_loss(projected, rotation)]
    for _ in range(30):
        rotation = learned_rotation(projected, rotation, iterations=1)
        losses.append(quantization_loss(projected, rotation))
    assert all(after <= before + 1e-9 for before, after in pairwise(losses))
    assert losses[-1] < 0.95 * losses[0]
    torch.testing.assert_close(rotation.T @ rotation, torch.eye(8).double())


class TestIterativeQuantizer(QuantizerSuite):
    def make(self, build: Build, **settings: object) -> IterativeQuantizer:
        return IterativeQuantizer(IterativeQuantizerConfig.model_validate({"bits": 8, **settings}), build)

    def drifted(self, count: int = 64) -> Tensor:
        return 3 * self.contexts(count).roll(5, 1) + 2

    def test_similarity_is_the_share_of_equal_bits(self, build: Build) -> None:
        quantizer = self.make(build, bits=4)
        codes = torch.tensor([[1, 1, 1, -1], [1, -1, -1, -1]], dtype=torch.int8)
        index = quantizer.index()
        index.add(codes)
        assert index.similarities(codes).tolist() == [[1.0, 0.5], [0.5, 1.0]]

    def test_its_codes_are_nearer_to_the_contexts_than_those_of_random_directions(self, build: Build) -> None:
        """The order of 200 contexts by distance from one of them: what ITQ is for."""
        drawn = torch.Generator().manual_seed(2)
        contexts = torch.randn(200, 4, generator=drawn) @ torch.randn(4, DIM, generator=drawn)
        contexts += 0.1 * torch.randn(200, DIM, generator=drawn) + 3
        near = torch.cdist(contexts, contexts) < torch.cdist(contexts, contexts).quantile(0.1)

        def gap(quantizer: IterativeQuantizer) -> float:
            keys = quantizer.keys(contexts).float()
            similarity = (keys @ keys.T / keys.shape[1] + 1) / 2
            return float(similarity[near].mean() - similarity[~near].mean())

        random = self.make(build)
        fitted = self.make(build)
        fitted.fit(contexts, torch.Generator().manual_seed(0))
        assert gap(fitted) > gap(random) + 0.1

    def test_bits_are_balanced_where_it_was_fitted(self, build: Build) -> None:
        quantizer = self.make(build)
        quantizer.fit(self.drifted(400), torch.Generator().manual_seed(0))
        assert (quantizer.keys(self.drifted(400)).float().mean(dim=0).abs() < 0.2).all()

    def test_it_follows_the_drift_until_a_key_is_stored(self, build: Build) -> None:
        quantizer = self.make(build, window=64, refit_every=64)
        quantizer.fit(self.contexts(64), torch.Generator().manual_seed(0))
        index, before = quantizer.index(), quantizer.keys(self.drifted())
        quantizer.maintain(self.drifted()[:63], torch.Generator())
        assert torch.equal(quantizer.keys(self.drifted()), before)  # not yet time
        quantizer.maintain(self.drifted()[63:], torch.Generator())
        after = quantizer.keys(self.drifted())
        assert not torch.equal(after, before)
        assert after.float().mean(dim=0).abs().max() < before.float().mean(dim=0).abs().max()
        index.add(after[:1])
        quantizer.maintain(self.contexts(64), torch.Generator())
        assert torch.equal(quantizer.keys(self.drifted()), after)  # keys are stable while one is stored

    def test_it_goes_on_with_stored_keys_if_told_so(self, build: Build) -> None:
        quantizer = self.make(build, window=64, refit_every=64, refit="always")
        quantizer.fit(self.contexts(64), torch.Generator().manual_seed(0))
        index, before = quantizer.index(), quantizer.keys(self.drifted())
        index.add(before)
        quantizer.maintain(self.drifted(), torch.Generator())
        assert not torch.equal(quantizer.keys(self.drifted()), before)

    def test_a_fit_to_the_same_contexts_changes_nothing(self, build: Build) -> None:
        """The rotation starts at the last one, although principal directions have no sign of their own."""
        quantizer = self.make(build, window=64, refit_every=64, iterations=200)
        quantizer.fit(self.contexts(64), torch.Generator().manual_seed(0))
        before = quantizer.keys(self.contexts(64))
        quantizer.maintain(self.contexts(64), torch.Generator())
        assert quantizer.metrics()["itq_fits"] == 2
        assert torch.equal(quantizer.keys(self.contexts(64)), before)

    def test_one_context_is_enough_to_go_on(self, build: Build) -> None:
        quantizer = self.make(build)
        quantizer.fit(self.contexts(1), torch.Generator().manual_seed(0))
        assert set(signs(quantizer.directions).unique().tolist()) <= {1.0, -1.0}
        assert torch.isfinite(quantizer.directions).all()

    def test_more_bits_than_dimensions_are_refused(self, build: Build) -> None:
        with pytest.raises(CbrError, match=f"set `bits` to at most {DIM}"):
            self.make(build, bits=DIM + 1)
