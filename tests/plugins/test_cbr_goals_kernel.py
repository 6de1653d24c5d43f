"""The kernel of goals and its index: by hand, against loops, and as theta changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from goal_parts import Goals, Table, Texts
from key_checks import KeySuite, normal

from cbr_goals.config import KernelConfig
from cbr_goals.kernel import Kernel
from cbrcore import Build, CbrError
from cbrcore.testing import DIM

NAMES = {"hat": [1.0, 0.0], "cap": [0.6, 0.8], "rack": [0.0, 1.0], "shelf": [0.8, -0.6]}


def made(build: Build, text_dim: int, **views) -> Kernel:
    return Kernel(KernelConfig(**views), replace(build, text_encoder=Texts(text_dim), context_dim=DIM))


class TestTwoViews(KeySuite):
    def make(self, build: Build) -> Kernel:
        return made(build, 11)


class TestSixViews(KeySuite):
    def make(self, build: Build) -> Kernel:
        return made(build, 3, first=("full", "head", "modifiers", "state"), second=("full", "head"))


class TestOneNameAndAPairFeature(KeySuite):
    """The value of the pair is no part of the similarity."""

    def make(self, build: Build) -> Kernel:
        return made(build, 22, second=())

    def test_the_value_of_the_pair_is_kept(self, build: Build):
        quantizer = self.fitted(build)
        keys = quantizer.keys(self.contexts())
        other = keys.clone()
        other[:, -1] += 3
        assert torch.equal(quantizer.similarity(keys, other), torch.ones(len(keys)))
        index = quantizer.index()
        index.add(other)
        assert torch.equal(index.keys(), other)
        assert torch.equal(index.pair(), other[:, -1:])


def by_hand(kernel: Kernel, one: torch.Tensor, other: torch.Tensor) -> float:
    """k of two keys, term by term."""
    total = 0.0
    for theta, columns in zip(kernel.theta.tolist(), kernel.layout.views.values(), strict=True):
        left, right = one[columns].double(), other[columns].double()
        dot = sum(a * b for a, b in zip(left.tolist(), right.tolist(), strict=True))
        total += theta * (dot / math.sqrt(float(left @ left) * float(right @ right)) - 1)
    return math.exp(total)


def test_by_hand():
    goals = Goals(Table(NAMES))
    goals.kernel.set_weights(torch.tensor([2.0, 5.0]))
    hat, cap, alone = goals.keys(("hat", "rack"), ("cap", "shelf"), ("hat",))
    pair = goals.kernel.pair_similarity(torch.stack([hat, hat, hat]), torch.stack([cap, hat, alone]))
    # cos(hat, cap) = .6, cos(rack, shelf) = -.6; and a name that is missing has cosine 0
    expected = [math.exp(2 * (0.6 - 1) + 5 * (-0.6 - 1)), 1.0, math.exp(2 * 0 + 5 * (0 - 1))]
    assert pair.tolist() == pytest.approx(expected, rel=1e-6)


def test_before_a_fit_each_name_has_three_in_all():
    kernel = Goals(first=("full", "head", "state"), second=("full", "head")).kernel
    assert kernel.theta.tolist() == [1, 1, 1, 1.5, 1.5]
    assert kernel.theta.dtype == torch.float64
    assert [name for name, _ in kernel.named_parameters()] == ["theta"]


@pytest.mark.parametrize(
    "views", [{}, {"first": ("full", "head", "state"), "second": ("head", "full")}, {"second": ()}]
)
@pytest.mark.parametrize("pairs", [None, {("red cup", "rack"): 1.5}])
def test_the_index_computes_what_loops_compute(views, pairs):
    goals = Goals(pairs=pairs, **views)
    things, places = ["red cup", "cup", "wet hat", "blue hat"], ["rack", "hat rack", "shelf"]
    names = [(thing, place) for thing in things for place in places] + [("cup",), ("hat",), ("red cup", "rack")]
    goals.kernel.set_weights(torch.linspace(0.5, 9.0, len(goals.kernel.theta), dtype=torch.float64))
    keys, queries = goals.keys(*names), goals.keys(("old cup", "shelf"), ("wet hat",), ("cup", "rack"))
    index = goals.kernel.index()
    index.add(keys[:4])
    index.add(keys[4:])
    expected = torch.tensor(
        [[by_hand(goals.kernel, query, key) for key in keys] for query in queries], dtype=torch.float64
    )
    for found in (index.similarities(queries).double(), goals.kernel.matrix(queries, keys)):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(index.total(queries), expected.sum(dim=1), atol=1e-6, rtol=0)
    assert len(index) == 15
    assert [len(each) for each in index.names] == [5, 4 if goals.kernel.layout.second else 1]
    assert torch.equal(index.keys(), keys)


def test_many_queries_are_answered_in_pieces(monkeypatch):
    monkeypatch.setattr("cbr_goals.kernel.AT_ONCE", 40)
    goals, plain = Goals(), torch.Generator().manual_seed(0)
    keys, queries = torch.randn(15, goals.encoder.dim, generator=plain), torch.randn(7, goals.encoder.dim)
    index = goals.kernel.index()
    index.add(keys)
    expected = goals.kernel.matrix(queries, keys)
    torch.testing.assert_close(index.similarities(queries), expected.float())
    torch.testing.assert_close(index.total(queries), expected.sum(dim=1))


def test_an_index_follows_theta():
    goals = Goals(Table(NAMES))
    index = goals.kernel.index()
    index.add(goals.keys(("hat", "rack")))
    found = []
    for theta in (0.0, 1.0, 7.0):
        goals.kernel.set_weights(torch.tensor([theta, 0.0]))
        found.append(index.similarities(goals.keys(("cap", "rack"))).item())
    assert found == pytest.approx([1, math.exp(-0.4), math.exp(-2.8)])


def test_a_weight_below_zero_counts_as_zero():
    goals = Goals(Table(NAMES))
    goals.kernel.set_weights(torch.tensor([-4.0, 2.0]))
    keys = goals.keys(("hat", "rack"), ("cap", "rack"))
    assert goals.kernel.similarity(keys[:1], keys[1:]).item() == 1
    assert goals.kernel.matrix(keys[:1], keys[1:]).item() == 1


def test_gradients_reach_theta():
    """dk/dtheta_v = k (cos_v - 1)."""
    goals = Goals(Table(NAMES))
    keys = goals.keys(("hat", "rack"), ("cap", "shelf"))
    k = goals.kernel.similarity(keys[:1], keys[1:])
    k.sum().backward()
    assert goals.kernel.theta.grad.tolist() == pytest.approx([k.item() * -0.4, k.item() * -1.6], rel=1e-5)


def test_keys_that_an_index_gives_can_be_loaded_again():
    goals = Goals(pairs={("cup", "rack"): 0.5})
    keys = goals.keys(("cup", "rack"), ("hat", "rack"), ("cup",), ("cup", "rack"))
    index, other = goals.kernel.index(), goals.kernel.index()
    index.add(keys)
    index.remove(1)
    other.add(keys[:1])
    other.load_tensors(index.tensors())
    assert torch.equal(other.keys(), keys[[0, 2, 3]])
    other.add(keys[1:2])
    assert torch.equal(other.keys(), keys[[0, 2, 3, 1]])


def test_names_that_no_row_has_any_more_are_let_go():
    goals, index = Goals(), None
    index = goals.kernel.index()
    index.add(goals.keys(("cup", "rack"), ("hat", "rack"), ("hat", "shelf")))
    index.keep([2, 1])
    assert [len(names) for names in index.names] == [1, 2]
    assert torch.equal(index.keys(), goals.keys(("hat", "shelf"), ("hat", "rack")))


def test_equal_vectors_have_cosine_one_exactly():
    """The grid of the coordinates alone does not see to that."""
    goals = Goals(Texts(384))
    vectors = normal(3000, goals.encoder.dim)
    goals.kernel.set_weights(torch.tensor([30.0, 30.0]))
    assert torch.equal(goals.kernel.similarity(vectors, vectors), torch.ones(3000))


@pytest.mark.parametrize(
    ("views", "width"),
    [({"first": ("full", "head")}, 50), ({}, 75), ({"second": ()}, 50), ({}, 49), ({}, 52), ({}, 0)],
)
def test_views_that_are_not_those_of_the_encoder_are_told(views, width):
    """24 numbers of a text and one more are a view, so two views have 50 or, with a pair feature, 51 columns."""
    with pytest.raises(CbrError, match=rf"have {width}\n.*`first` and `second`"):
        Kernel(KernelConfig(**views), Build(text_encoder=Texts(24), context_dim=width))
    with pytest.raises(CbrError, match="add a `text_encoder`"):
        Kernel(KernelConfig(**views), Build(context_dim=width))
