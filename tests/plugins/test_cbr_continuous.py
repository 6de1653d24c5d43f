"""The context itself as the key: cosine, the cap of the memory."""

from __future__ import annotations

import pytest
import torch
from key_checks import HERE, FixedSuite, cosine_by_hand, normal
from parts import act, item

from cbr_continuous.config import ContinuousContextConfig
from cbr_continuous.quantizer import ContinuousContext
from cbr_memory.memory import CaseMemory
from cbrcore import Build


def quantizer(dim: int = 2) -> ContinuousContext:
    return ContinuousContext(ContinuousContextConfig(), Build(context_dim=dim))


class TestContract(FixedSuite):
    def make(self, build: Build) -> ContinuousContext:
        return ContinuousContext(ContinuousContextConfig(), build)


def test_by_hand():
    contexts = torch.tensor([[3.0, 4.0], [-1.0, 0.0]], requires_grad=True)
    other = torch.tensor([[4.0, 3.0], [1.0, 0.0]])
    keys = quantizer().keys(contexts)
    assert keys.tolist() == [[3.0, 4.0], [-1.0, 0.0]]
    assert quantizer().similarity(contexts, quantizer().keys(other)).tolist() == pytest.approx([24 / 25, 0])
    assert quantizer().pair_similarity(contexts, other).tolist() == pytest.approx([24 / 25, 0])
    index = quantizer().index()
    index.add(keys)
    torch.testing.assert_close(index.similarities(other), torch.tensor([[0.96, 0.0], [0.6, 0.0]]))


def test_agrees_with_the_formula_in_doubles():
    left, right = normal(30, 96), normal(30, 96, seed=1)
    expected = cosine_by_hand(left, right)
    index = quantizer(96).index()
    index.add(right)
    torch.testing.assert_close(index.similarities(left).double(), expected, atol=2e-7, rtol=0)
    found = quantizer(96).pair_similarity(left.double(), right.double())
    torch.testing.assert_close(found, expected.diagonal(), atol=2e-7, rtol=0)


def test_gradients_of_a_pair_reach_both_sides_also_where_the_cosine_is_negative():
    left = torch.tensor([[1.0, 0.0]], requires_grad=True)
    right = torch.tensor([[-1.0, 1.0]], requires_grad=True)
    similarity = quantizer().pair_similarity(left, right)
    similarity.sum().backward()
    assert similarity.item() == 0
    torch.testing.assert_close(left.grad, torch.tensor([[0.0, 0.5**0.5]]))  # towards the other one
    torch.testing.assert_close(right.grad, torch.tensor([[1.0, 1.0]]) / 2**1.5)


def test_the_oldest_contexts_leave_a_full_memory():
    """The cap of 5000 on Jericho is `memory.capacity`; here it is 3."""
    memory = CaseMemory(quantizer().index(), capacity=3)
    for step in range(5):
        memory.add(item(torch.tensor([1.0, step]), act("take {}", "cup")), HERE, step=step)
    assert memory.index.keys().tolist() == [[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]]
    (found,) = memory.query(torch.tensor([[1.0, 0.0]]), threshold=0.1)
    assert (found[0].case.id, found[0].relevance) == (2, pytest.approx(0.2**0.5))
