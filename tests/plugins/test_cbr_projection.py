"""Random projections: R is fixed and of the right size, cosines and signs, straight-through gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from key_checks import FixedSuite, cosine_by_hand, normal
from torch import Tensor

from cbr_projection.config import RandomProjectionConfig, SignRandomProjectionConfig
from cbr_projection.quantizer import RandomProjection, SignRandomProjection
from cbrcore import Build


def rp(dim: int = 2, size: int = 3, seed: int = 0) -> RandomProjection:
    return RandomProjection(RandomProjectionConfig(size=size), Build(context_dim=dim, seed=seed))


def srp(dim: int = 2, size: int = 3, seed: int = 0) -> SignRandomProjection:
    return SignRandomProjection(SignRandomProjectionConfig(size=size), Build(context_dim=dim, seed=seed))


def with_matrix(quantizer, rows: list[list[float]]):
    quantizer.projection.copy_(torch.tensor(rows))
    return quantizer


class TestProjection(FixedSuite):
    def make(self, build: Build) -> RandomProjection:
        return RandomProjection(RandomProjectionConfig(), build)


class TestSigns(FixedSuite):
    def make(self, build: Build) -> SignRandomProjection:
        return SignRandomProjection(SignRandomProjectionConfig(), build)


# -- R ---------------------------------------------------------------------------------------------------------


def test_entries_of_the_matrix_have_variance_one_over_p():
    projection = rp(dim=768, size=64).projection
    assert projection.shape == (64, 768)
    assert projection.mean().item() == pytest.approx(0, abs=0.005)
    assert projection.var().item() == pytest.approx(1 / 64, rel=0.05)
    contexts = normal(200, 768)
    ratio = (contexts @ projection.T).norm(dim=1) / contexts.norm(dim=1)
    assert ratio.mean().item() == pytest.approx(1, abs=0.05)  # lengths are kept in expectation


def test_the_matrix_follows_from_the_seed_of_the_run_alone():
    first = rp(seed=3).projection
    torch.manual_seed(77)
    torch.randn(5)
    assert torch.equal(rp(seed=3).projection, first)
    assert torch.equal(srp(seed=3).projection, first)
    assert not torch.equal(rp(seed=4).projection, first)


@pytest.mark.parametrize("make", [rp, srp])
def test_a_checkpoint_holds_the_matrix(make):
    contexts = normal(9, 12)
    stored, other = make(dim=12, size=64, seed=1), make(dim=12, size=64, seed=2)
    assert not torch.equal(stored.keys(contexts), other.keys(contexts))
    other.load_state_dict(stored.state_dict())
    assert torch.equal(stored.keys(contexts), other.keys(contexts))


# -- RP --------------------------------------------------------------------------------------------------------


def test_projection_by_hand():
    """R = [[1, 0], [0, 2], [1, 1]]: (1, 0) -> (1, 0, 1); (0, 1) -> (0, 2, 1); (-1, 1) -> (-1, 2, 0)."""
    quantizer = with_matrix(rp(), [[1, 0], [0, 2], [1, 1]])
    contexts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
    keys = quantizer.keys(contexts)
    assert keys.tolist() == [[1, 0, 1], [0, 2, 1], [-1, 2, 0]]
    expected = [1 / math.sqrt(10), 4 / 5, 0.0]  # the last cosine is -1 / sqrt 10
    assert quantizer.pair_similarity(contexts, contexts.roll(-1, 0)).tolist() == pytest.approx(expected)
    assert quantizer.similarity(contexts, keys.roll(-1, 0)).tolist() == pytest.approx(expected)
    index = quantizer.index()
    index.add(keys)
    assert index.similarities(keys).diagonal(1).tolist() == pytest.approx(expected[:2])


def test_projection_agrees_with_the_formula_in_doubles():
    quantizer = rp(dim=96, size=64).double()
    left, right = normal(2, 25, 96).double()
    expected = cosine_by_hand(left @ quantizer.projection.T, right @ quantizer.projection.T)
    found = quantizer.pair_similarity(left, right)
    torch.testing.assert_close(found, expected.diagonal(), atol=2e-7, rtol=0)
    index = quantizer.index()
    index.add(quantizer.keys(right))
    torch.testing.assert_close(
        index.similarities(quantizer.keys(left)).double(), expected, atol=1e-6, rtol=0
    )  # stored in single precision


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_of_the_projection_is_that_of_the_cosine(sign):
    quantizer = rp(dim=5, size=4).double()
    left = normal(1, 5).double().requires_grad_()
    right = sign * (left.detach() + 0.3 * normal(1, 5, seed=1).double())
    quantizer.similarity(left, quantizer.keys(right)).sum().backward()
    plain = left.detach().clone().requires_grad_()
    torch.cosine_similarity(plain @ quantizer.projection.T, right @ quantizer.projection.T).sum().backward()
    torch.testing.assert_close(left.grad, plain.grad, atol=1e-6, rtol=1e-5)
    assert left.grad.norm() > 0


# -- SRP -------------------------------------------------------------------------------------------------------


def test_signs_by_hand():
    """R = [[1, 0], [0, 2], [1, 1]]: (1, -3) -> (1, -6, -2), (2, -1) -> (2, -2, 1), (0, -1) -> (0, -2, -1)."""
    quantizer = with_matrix(srp(), [[1, 0], [0, 2], [1, 1]])
    contexts = torch.tensor([[1.0, -3.0], [2.0, -1.0], [0.0, -1.0]])
    keys = quantizer.keys(contexts)
    assert keys.dtype == torch.uint8
    assert keys.tolist() == [[1, 0, 0], [1, 0, 1], [1, 0, 0]]  # 0 counts as positive
    expected = torch.tensor([2 / 3, 2 / 3, 1.0])
    torch.testing.assert_close(quantizer.similarity(contexts, keys.roll(-1, 0)), expected)
    torch.testing.assert_close(quantizer.pair_similarity(contexts, contexts.roll(-1, 0)), expected)
    index = quantizer.index()
    index.add(keys)
    torch.testing.assert_close(index.similarities(keys)[2], torch.tensor([1.0, 2 / 3, 1.0]))


def test_straight_through_gradient_of_the_signs_by_hand():
    """p = 1, R = (1, 0): o = tanh(c_1/||c||) for the gradient, sim = (1 + o o')/2 with o' = -1 stored.

    At c = (3, 4): u = 0.6, d sim/du = -(1 - tanh(0.6)^2)/2, du/dc = (c_2^2, -c_1 c_2)/||c||^3 = (16, -12)/125.
    """
    quantizer = with_matrix(srp(size=1), [[1.0, 0.0]]).double()
    context = torch.tensor([[3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    similarity = quantizer.similarity(context, torch.tensor([[0]], dtype=torch.uint8))
    similarity.sum().backward()
    slope = -(1 - math.tanh(0.6) ** 2) / 2
    assert similarity.item() == 0
    torch.testing.assert_close(context.grad, slope * torch.tensor([[16.0, -12.0]]).double() / 125)


def literal_signs(quantizer: SignRandomProjection, contexts: Tensor) -> Tensor:
    """o = sign(R c) + t - stopgrad(t), t = tanh(sqrt(p) R c/||c||), row by row."""
    rows = []
    for context in contexts:
        projected = quantizer.projection @ context
        t = torch.tanh(math.sqrt(len(projected)) * projected / context.norm())
        rows.append(projected.sign() + t - t.detach())
    return torch.stack(rows)


def test_signs_and_their_gradients_are_those_of_the_printed_formula():
    quantizer = srp(dim=12, size=64).double()
    left, right = (normal(9, 12, seed=seed).double().requires_grad_() for seed in (2, 3))
    found = quantizer.pair_similarity(left, right)
    expected = ((1 + literal_signs(quantizer, left) * literal_signs(quantizer, right)) / 2).mean(dim=1)
    torch.testing.assert_close(found, expected)
    weights = torch.linspace(1, 2, 9).double()
    mine, theirs = (torch.autograd.grad((value * weights).sum(), (left, right)) for value in (found, expected))
    for one, other in zip(mine, theirs, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31), st.floats(0.1, 3.0))
def test_the_share_of_equal_signs_estimates_the_angle(seed, angle):
    """P(equal signs) = 1 - angle/pi for a random hyperplane; 4000 of them, five standard deviations."""
    quantizer = srp(dim=6, size=4000, seed=seed)
    one, two = torch.linalg.qr(normal(6, 2, seed=seed))[0].T
    other = math.cos(angle) * one + math.sin(angle) * two
    found = quantizer.pair_similarity(one[None], other[None]).item()
    assert found == pytest.approx(1 - angle / math.pi, abs=5 * 0.5 / math.sqrt(4000))


def test_gradient_descent_moves_opposite_signs_together():
    quantizer = srp(dim=16, size=32)
    left = normal(1, 16, seed=5).requires_grad_()
    right = -left.detach() + 0.3 * normal(1, 16, seed=6)
    before = quantizer.pair_similarity(left, right).item()
    optimizer = torch.optim.Adam([left], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (1 - quantizer.pair_similarity(left, right)).square().sum().backward()
        optimizer.step()
    assert before < 0.3
    assert quantizer.pair_similarity(left, right).item() > 0.9


def test_default_threshold_needs_45_of_64_equal_signs():
    index = srp(size=64).index()
    index.add(torch.zeros(1, 64, dtype=torch.uint8))
    query = torch.zeros(2, 64, dtype=torch.uint8)
    query[0, :19] = 1  # 45 equal
    query[1, :20] = 1  # 44 equal
    assert (index.similarities(query) > 0.7).flatten().tolist() == [True, False]
