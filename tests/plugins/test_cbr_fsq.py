"""Finite scalar quantization: codes and gradients by hand, standardising, levels in use."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from key_checks import KeySuite, generator, normal
from torch import Tensor

from cbr_fsq.config import FiniteScalarQuantizerConfig
from cbr_fsq.quantizer import FiniteScalarQuantizer
from cbrcore import Build
from cbrcore.errors import RunFailed
from cbrcore.testing import DIM

ROOT = math.sqrt(2)


def quantizer(dim: int = 2, **config) -> FiniteScalarQuantizer:
    torch.manual_seed(0)
    defaults = {"levels": 3, "parts": 2}
    return FiniteScalarQuantizer(FiniteScalarQuantizerConfig(**(defaults | config)), Build(context_dim=dim))


def by_hand() -> FiniteScalarQuantizer:
    """Three levels. A context (1, 0), scaled to (sqrt 2, 0), has tanh 0.6 in the first number, 0 in the second;
    (0, 1) has 0 in the first and -0.8 in the second."""
    fsq = quantizer()
    with torch.no_grad():
        fsq.weight.copy_(torch.tensor([[math.atanh(0.6) / ROOT, 0.0], [0.0, math.atanh(-0.8) / ROOT]]))
    return fsq


class TestContract(KeySuite):
    def make(self, build: Build) -> FiniteScalarQuantizer:
        return FiniteScalarQuantizer(FiniteScalarQuantizerConfig(), build)


def test_codes_by_hand_whatever_the_scale_of_a_context():
    """Positions 1 + tanh: (1.6, 1) and (1, 0.2), mirrored (0.4, 1) and (1, 1.8)."""
    fsq = by_hand()
    contexts = torch.tensor([[1.0, 0.0], [0.0, 70.0], [-0.01, 0.0], [0.0, -1.0]])
    keys = fsq.keys(contexts)
    assert keys.dtype == torch.uint8
    assert keys.tolist() == [[2, 1], [1, 0], [0, 1], [1, 2]]


def test_similarity_by_hand():
    fsq = by_hand()
    contexts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert fsq.pair_similarity(contexts, contexts.roll(-1, 0)).tolist() == [0.0, 0.0, 0.5]
    keys = torch.tensor([[2, 0], [1, 0], [2, 2]], dtype=torch.uint8)
    assert fsq.similarity(contexts, keys).tolist() == [0.5, 1.0, 0.0]


def test_straight_through_gradient_by_hand():
    """(1, 0) is at (1.6, 1), the stored key at (0, 1): the first number is 1.6 away, the second is the same.

    sim = 1/2 sum 1 - |a - a'|/2, so d sim/da = (-1/4, 0); da/dz = 1 - 0.6^2 = 0.64; dz/dW = (sqrt 2, 0).
    """
    fsq = by_hand()
    similarity = fsq.similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[0, 1]], dtype=torch.uint8))
    similarity.sum().backward()
    assert similarity.item() == 0.5
    torch.testing.assert_close(fsq.bias.grad, torch.tensor([-0.16, 0.0]))
    torch.testing.assert_close(fsq.weight.grad, torch.tensor([[-0.16 * ROOT, 0.0], [0.0, 0.0]]))


def literal(fsq: FiniteScalarQuantizer, left: Tensor, right: Tensor) -> Tensor:
    """1/D sum_j h_j + s_j - stopgrad(s_j), number by number."""

    def position(context: Tensor, number: int) -> Tensor:
        scaled = context / context.norm() * math.sqrt(len(context))
        return (fsq.config.levels - 1) / 2 * (1 + torch.tanh(fsq.weight[number] @ scaled + fsq.bias[number]))

    rows = []
    for one, other in zip(left, right, strict=True):
        terms = []
        for number in range(fsq.config.parts):
            a, b = position(one, number), position(other, number)
            s = 1 - (a - b).abs() / (fsq.config.levels - 1)
            terms.append(float(round(a.item()) == round(b.item())) + s - s.detach())
        rows.append(torch.stack(terms).mean())
    return torch.stack(rows)


@pytest.mark.parametrize("levels", [2, 5, 8])
def test_similarity_and_its_gradients_are_those_of_the_printed_formula(levels):
    fsq = quantizer(dim=6, levels=levels, parts=4).double()
    with torch.no_grad():
        fsq.bias.copy_(normal(4))
    left, right = (normal(9, 6, seed=seed).double().requires_grad_() for seed in (2, 3))
    found, expected = fsq.pair_similarity(left, right), literal(fsq, left, right)
    torch.testing.assert_close(found, expected)
    leaves, weights = (left, right, fsq.weight, fsq.bias), torch.linspace(1, 2, 9).double()
    mine, theirs = (torch.autograd.grad((value * weights).sum(), leaves) for value in (found, expected))
    for one, other in zip(mine, theirs, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(2, 256), st.floats(0.01, 50))
def test_codes_are_levels_and_all_of_them_can_be_reached(seed, levels, scale):
    fsq = quantizer(dim=3, levels=levels, parts=4)
    with torch.no_grad():
        fsq.weight.mul_(scale)
        keys = fsq.keys(normal(30, 3, seed=seed))
        assert int(keys.max()) <= levels - 1
        fsq.weight.zero_()
        fsq.bias.copy_(torch.tensor([-20.0, -0.1, 0.1, 20.0]))
    codes = fsq.keys(normal(1, 3, seed=seed))[0].tolist()
    assert codes == sorted(codes)
    assert (codes[0], codes[-1]) == (0, levels - 1)


def test_gradient_descent_moves_far_codes_together_and_equal_codes_apart():
    fsq = quantizer(dim=16, levels=5, parts=8)
    left = normal(1, 16, seed=5).requires_grad_()
    right = -left.detach() + 0.1 * normal(1, 16, seed=6)
    optimizer = torch.optim.Adam([left], lr=0.05)
    assert fsq.pair_similarity(left, right).item() == 0
    for _ in range(400):
        optimizer.zero_grad()
        (1 - fsq.pair_similarity(left, right)).square().sum().backward()
        optimizer.step()
    assert fsq.pair_similarity(left, right).item() > 0.8
    for _ in range(400):
        optimizer.zero_grad()
        fsq.pair_similarity(left, right).square().sum().backward()
        optimizer.step()
    assert fsq.pair_similarity(left, right).item() < 0.2


# -- where the levels start ------------------------------------------------------------------------------------


def alike(count: int, dim: int = 64) -> Tensor:
    """Contexts with a large common part, far from unit scale: cosines around 0.99."""
    return 300 * (normal(1, dim, seed=8) + 0.1 * normal(count, dim, seed=9))


def test_after_fit_all_levels_are_in_use_and_nearly_equally_often():
    fsq = quantizer(dim=64, levels=5, parts=32)
    contexts = alike(500)
    before = figures(fsq, contexts)
    fsq.fit(contexts, generator())
    after = figures(fsq, contexts)
    assert before["code_perplexity"] < 2
    assert after["code_usage"] == 1
    assert after["code_perplexity"] > 4.7
    assert len(fsq.keys(contexts).unique(dim=0)) == 500


def figures(fsq: FiniteScalarQuantizer, contexts: Tensor) -> dict[str, float]:
    fsq.seen.zero_()
    fsq.maintain(contexts, generator())
    return dict(fsq.metrics())


def test_fit_standardises_the_projected_numbers():
    fsq = quantizer(dim=64, parts=32).double()
    contexts = alike(100).double()
    fsq.fit(contexts, generator())
    projected = torch.stack([fsq.weight @ (c / c.norm() * 8) + fsq.bias for c in contexts])
    torch.testing.assert_close(projected.mean(dim=0), torch.zeros(32).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(projected.square().mean(dim=0), torch.ones(32).double())
    again = fsq.weight.detach().clone()
    fsq.fit(contexts, generator())
    torch.testing.assert_close(fsq.weight.detach(), again)


@pytest.mark.parametrize("count", [1, 7])
def test_fit_on_constant_contexts_centres_and_does_not_blow_up_rounding(count):
    fsq = quantizer(dim=64, levels=5, parts=32)
    contexts = normal(1, 64) * torch.linspace(1, 3, count)[:, None]  # equal but for rounding, once scaled
    size = fsq.weight.detach().abs().max()
    fsq.fit(contexts, generator())
    assert fsq.weight.detach().abs().max() == size
    assert fsq.keys(contexts).unique().tolist() == [2]


def test_fit_refuses_contexts_that_are_not_finite_and_changes_nothing():
    fsq = quantizer(dim=4)
    before = fsq.weight.detach().clone()
    with pytest.raises(RunFailed, match="not finite"):
        fsq.fit(torch.tensor([[1.0, float("nan"), 0.0, 0.0]]), generator())
    with pytest.raises(RunFailed, match="not finite"):
        fsq.maintain(torch.tensor([[1.0, float("inf"), 0.0, 0.0]]), generator())
    assert torch.equal(fsq.weight, before)
    assert int(fsq.seen) == 0


# -- figures ---------------------------------------------------------------------------------------------------


def test_usage_and_perplexity_by_hand_and_independent_of_the_batch_size():
    contexts = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]])  # codes (2, 1) three times, (1, 0) once
    whole, single = by_hand(), by_hand()
    assert whole.metrics() == {"code_usage": 0.0, "code_perplexity": 0.0}
    whole.maintain(contexts, generator())
    for row in contexts:
        single.maintain(row[None], generator())
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    expected = {"code_usage": 2 / 3, "code_perplexity": math.exp(entropy)}
    assert whole.metrics() == pytest.approx(expected)
    assert single.metrics() == pytest.approx(expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 30))
def test_figures_count_the_recent_contexts_however_they_come_in_batches(sizes, window):
    contexts = normal(sum(sizes), 4, seed=len(sizes))
    batched, single = quantizer(dim=4, window=window), quantizer(dim=4, window=window)
    for batch in contexts.split(sizes):
        batched.maintain(batch, generator())
    for row in contexts:
        single.maintain(row[None], generator())
    assert batched.metrics() == single.metrics()
    latest = single.keys(contexts)[-window:]
    expected = sum(len(codes.unique()) for codes in latest.T) / (2 * 3)
    assert batched.metrics()["code_usage"] == pytest.approx(expected)


def test_upkeep_changes_no_key():
    fsq = quantizer(dim=DIM, parts=8)
    contexts = normal(20, DIM)
    before = fsq.keys(contexts)
    fsq.maintain(contexts, generator())
    assert torch.equal(fsq.keys(contexts), before)
    assert float(fsq.regularizer(contexts)) == 0
