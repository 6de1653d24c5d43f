"""Seeded graph attention: by hand, against the dense formulas, and what must not change a context."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from dense_gat import dense_contexts
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import softmax

from cbr_nn.feedforward import FeedForward
from cbr_seeded_gat.adjacency import adjacency
from cbr_seeded_gat.config import SeededGatConfig
from cbr_seeded_gat.encoder import SeededGat
from cbr_seeded_gat.layer import SeededAttention, softmax_at
from cbr_seeded_gat.plan import make_plan
from cbr_text_encoders.config import UntrainedConfig
from cbr_text_encoders.untrained import UntrainedEncoder
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.testing import ContextEncoderSuite
from cbrcore.types import EntityTuple, Observation, StateGraph

torch.set_num_threads(1)

WORDS = UntrainedEncoder(UntrainedConfig(dim=24), Build())
KITCHEN = StateGraph.of(
    [
        ("player", "at", "kitchen"),
        ("fridge", "at", "kitchen"),
        ("table", "at", "kitchen"),
        ("apple", "in", "player"),
        ("milk", "in", "fridge"),
        ("plate", "on", "table"),
    ],
    nodes=["lamp"],
)
ACTIONS = [("apple", "fridge"), ("apple", "table"), ("milk",), ("plate", "player"), ("lamp",), ("ghost", "milk")]


def encoder(**settings: Any) -> SeededGat:
    """A small encoder with the same parameters for the same settings, in evaluation mode."""
    torch.manual_seed(0)
    config = SeededGatConfig(**{"heads": 4, **settings})
    module = SeededGat(config, Build(text_encoder=WORDS)).train(False)
    with torch.no_grad():
        for parameter in module.parameters():  # no parameter at an initial zero
            parameter.add_(0.02 * torch.randn_like(parameter))
    return module


class TestContract(ContextEncoderSuite):
    def make(self, build: Build) -> SeededGat:
        return SeededGat(SeededGatConfig(), build)


# --- by hand ------------------------------------------------------------------------------------------------


class TableOfNames:
    """A text encoder whose vectors a reader can see."""

    identity = "table"

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.dim = len(next(iter(vectors.values())))

    def encode(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([list(self.vectors[text]) for text in texts]).reshape(-1, self.dim)


def plain_encoder(vectors: Mapping[str, Sequence[float]], **settings: Any) -> SeededGat:
    """W, Linear and both layers of every FFN are the identity; attention is uniform until a test sets it."""
    module = SeededGat(
        SeededGatConfig(**{"heads": 1, **settings}), Build(text_encoder=TableOfNames(vectors))
    ).train(False)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
            if parameter.shape == (module.dim, module.dim):
                parameter.copy_(torch.eye(module.dim))
        for layer in attention(module):
            layer.attend_own.zero_()
            layer.attend_other.zero_()
    return module


def attention(module: SeededGat) -> list[SeededAttention]:
    return [layer for layer in module.layers if isinstance(layer, SeededAttention)]


def betas(module: SeededGat, graph: StateGraph, entities: EntityTuple) -> list[list[float]]:
    """beta^(2), beta^(3), ... as the layers pass them on, for the nodes in order of their distance."""
    found: list[list[float]] = []
    hooks = [
        layer.register_forward_hook(lambda _module, _inputs, output: found.append(output[2].tolist()))
        for layer in module.layers
    ]
    with torch.no_grad():
        module.contexts(graph, [entities])
    for hook in hooks:
        hook.remove()
    return found


PATH = StateGraph.of([("a", "is by", "b"), ("b", "is by", "c")])
PATH_VECTORS = {"a": (1.0, 0.0), "b": (0.0, 2.0), "c": (3.0, 1.0)}


def test_beta_recursion_by_hand() -> None:
    """a - b - c, seed a, lambda 0.8, uniform attention: alpha_ab = 1, alpha_ba = alpha_bc = 1/2, alpha_cb = 1."""
    module = plain_encoder(PATH_VECTORS, layers=5)
    second, third, fourth, fifth, last = betas(module, PATH, ("a",))
    assert second == pytest.approx([0.2, 0.4])  # a: 0.2 * 1; b: 0.8 * 1/2 * 1
    assert third == pytest.approx([0.36, 0.16, 0.32])  # a: .2*.2 + .8*.4; b: .2*.4 + .8*.5*.2; c: .8*.4
    assert fourth == pytest.approx([0.2, 0.304])  # a: .2*.36 + .8*.16; b: .2*.16 + .8*.5*(.36 + .32)
    assert fifth == pytest.approx([0.2832])  # a: .2*.2 + .8*.304
    assert last == []


def test_beta_starts_at_one_over_the_number_of_entities() -> None:
    module = plain_encoder(PATH_VECTORS, layers=2)
    assert betas(module, PATH, ("a", "b"))[0] == pytest.approx([0.5, 0.3])  # .2*.5 + .8*.5; .2*.5 + .8*.5*.5


def test_beta_takes_the_mean_of_the_heads() -> None:
    """b - a - c, seed b: head 0 gives alpha_ab 1/2, head 1 gives 1/4; their mean is 3/8."""
    graph = StateGraph.of([("b", "is by", "a"), ("a", "is by", "c")])
    module = plain_encoder({"a": (0, 0), "b": (0, 0), "c": (0, math.log(3))}, layers=3, heads=2)
    with torch.no_grad():
        attention(module)[0].attend_other.copy_(torch.tensor([[0.0], [1.0]]))
    assert betas(module, graph, ("b",))[0] == pytest.approx([0.2, 0.8 * 3 / 8])


def test_context_of_one_entity_by_hand() -> None:
    """a - b - c, seed a: h_a(1) = (1,0) + 1 * (0,2); beta_a(2) = 0.2; h_a(2) = (1,2) + 0.2 * (0,2)."""
    module = plain_encoder(PATH_VECTORS, layers=2)
    assert module.contexts(PATH, [("a",)])[0].tolist() == pytest.approx([1.0, 2.4])


def test_context_of_two_neighbours_by_hand() -> None:
    """Without c: h_a(1) = (1,1), h_b(1) = (.5,2); beta(2) = .5 each; h_a(2) = (1.25,2), h_b(2) = (1,2.5)."""
    graph = StateGraph.of([("a", "is by", "b")])
    module = plain_encoder(PATH_VECTORS, layers=2)
    assert module.contexts(graph, [("a", "b")])[0].tolist() == pytest.approx([2.25, 4.5])


@pytest.mark.parametrize(
    ("first", "alpha"),
    [(math.log(3), 0.75), (-5 * math.log(3), 0.25)],  # LeakyReLU 0.2 makes -5 log 3 to -log 3
)
def test_attention_coefficients_by_hand(first: float, alpha: float) -> None:
    """a has the neighbours b and c; only the first entry of W h_u counts: scores `first` and 0."""
    graph = StateGraph.of([("a", "is by", "b"), ("a", "is by", "c")])
    module = plain_encoder({"a": (0, 0), "b": (first, 1), "c": (0, 0)}, layers=1)
    with torch.no_grad():
        attention(module)[0].attend_other.copy_(torch.tensor([[1.0, 0.0]]))
    assert module.contexts(graph, [("a",)])[0, 1].item() == pytest.approx(alpha)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(0, 40), st.integers(1, 9), st.sampled_from([0.1, 1.0, 80.0]))
def test_softmax_by_rows_is_torch_geometrics_to_the_bit(seed: int, edges: int, size: int, scale: float) -> None:
    """With its gradient; rows without a score, and scores whose powers overflow, among them."""
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randint(size, (edges,), generator=draws)
    mine = (scale * torch.randn(edges, 2, generator=draws)).requires_grad_()
    theirs = mine.detach().clone().requires_grad_()
    found, expected = softmax_at(rows, mine, size), softmax(theirs, rows, num_nodes=size)
    assert torch.equal(found, expected)
    weights = torch.randn(edges, 2, generator=draws)
    slopes = (
        torch.autograd.grad((each * weights).sum(), leaf)[0] for each, leaf in [(found, mine), (expected, theirs)]
    )
    assert torch.equal(*slopes)


def test_isolated_node_gets_no_message() -> None:
    module = plain_encoder(PATH_VECTORS, layers=3)
    graph = StateGraph.of([], nodes=["a", "b"])
    assert module.contexts(graph, [("a",), ("a", "b")]).tolist() == [[1, 0], [1, 2]]


def test_ffn_by_hand() -> None:
    ffn = FeedForward(1, 1)
    with torch.no_grad():
        for parameter, value in zip(ffn.parameters(), (2.0, -1.0, 3.0, 0.5), strict=True):
            parameter.fill_(value)
    assert ffn(torch.tensor([[2.0], [-2.0]])).flatten().tolist() == [9.5, 0.5]  # 3 relu(2x - 1) + 0.5


# --- against the dense twin ---------------------------------------------------------------------------------

names = st.sampled_from([f"thing {i}" for i in range(9)])
triples = st.tuples(names, st.sampled_from(["in", "on", "at"]), names)
graphs = st.builds(StateGraph.of, st.lists(triples, max_size=16), st.lists(names, max_size=4))
tuples = st.lists(st.lists(names, max_size=3).map(tuple), max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    graphs,
    tuples,
    st.fixed_dictionaries({"layers": st.integers(1, 5), "relations": st.booleans(), "lambda": st.floats(0, 1)}),
)
def test_shortcut_equals_the_dense_formulas(
    graph: StateGraph, asked: list[EntityTuple], chosen: dict[str, Any]
) -> None:
    module = encoder(**chosen)
    with torch.no_grad():
        found = module.contexts(graph, asked)
        if asked:
            torch.testing.assert_close(found, dense_contexts(module, graph, asked), atol=1e-5, rtol=1e-5)
    assert found.shape == (len(asked), module.dim)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(graphs, st.lists(names, max_size=3).map(tuple)), max_size=6), st.integers(1, 3))
def test_batch_of_many_graphs_equals_each_alone(pairs: list[tuple[StateGraph, EntityTuple]], layers: int) -> None:
    module = encoder(layers=layers)
    with torch.no_grad():
        together = module.contexts_of_pairs(pairs)
        for row, (graph, entities) in enumerate(pairs):
            torch.testing.assert_close(together[row], module.contexts(graph, [entities])[0], atol=1e-5, rtol=1e-5)
    assert together.shape == (len(pairs), module.dim)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("relations", [False, True])
def test_gradients_equal_those_of_the_dense_formulas(layers: int, relations: bool) -> None:
    module = encoder(layers=layers, relations=relations, dropout=0.0, dim=16).train()
    weights = torch.randn(len(ACTIONS), module.dim)

    def gradients(contexts: Tensor) -> dict[str, Tensor]:
        module.zero_grad()
        (contexts * weights).sum().backward()
        return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}

    found = gradients(module.contexts(KITCHEN, ACTIONS))
    expected = gradients(dense_contexts(module, KITCHEN, ACTIONS))
    assert found.keys() == expected.keys() == {name for name, _ in module.named_parameters()}
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-4, rtol=1e-4)


# --- what must not change a context -------------------------------------------------------------------------


def same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-5)


def test_entities_are_a_set() -> None:
    contexts = encoder().contexts(KITCHEN, [("apple", "milk"), ("milk", "apple"), ("apple", "milk", "apple")])
    assert torch.equal(contexts[0], contexts[1])
    assert torch.equal(contexts[0], contexts[2])


def test_other_tuples_of_the_call_do_not_matter() -> None:
    module = encoder(layers=3)
    together = module.contexts(KITCHEN, ACTIONS)
    for row, entities in enumerate(ACTIONS):
        same(module.contexts(KITCHEN, [entities])[0], together[row])


def test_repeated_facts_other_direction_and_self_loops_do_not_matter() -> None:
    module = encoder(layers=3)
    repeated = StateGraph(KITCHEN.nodes, KITCHEN.triples * 3)
    reversed_ = StateGraph.of([(tail, "holds", head) for head, _, tail in KITCHEN.triples], KITCHEN.nodes)
    looped = StateGraph.of([*KITCHEN.triples, ("apple", "is", "apple")], KITCHEN.nodes)
    expected = module.contexts(KITCHEN, ACTIONS)
    for graph in (repeated, reversed_, looped):
        assert torch.equal(module.contexts(graph, ACTIONS), expected)


def test_relations_matter_only_if_asked_for() -> None:
    renamed = StateGraph.of([(h, "under" if r == "in" else r, t) for h, r, t in KITCHEN.triples], KITCHEN.nodes)
    for relations in (False, True):
        module = encoder(relations=relations)
        equal = torch.equal(module.contexts(KITCHEN, [("fridge",)]), module.contexts(renamed, [("fridge",)]))
        assert equal is not relations


def test_far_nodes_do_not_matter_and_near_ones_do() -> None:
    module = encoder(layers=2)
    far = StateGraph.of([*KITCHEN.triples, ("mat", "at", "hall"), ("milk", "is", "cold")], KITCHEN.nodes)
    near = StateGraph.of([*KITCHEN.triples, ("apple", "is", "red")], KITCHEN.nodes)
    expected = module.contexts(KITCHEN, [("apple",)])
    same(module.contexts(far, [("apple",)]), expected)
    assert not torch.allclose(module.contexts(near, [("apple",)]), expected, atol=1e-3)


def test_an_earlier_graph_of_another_size_leaves_no_trace() -> None:
    used, fresh = encoder(layers=3), encoder(layers=3)
    small = StateGraph.of([("mat", "at", "hall")], nodes=["apple"])
    used.contexts(KITCHEN, ACTIONS)
    assert torch.equal(used.contexts(small, ACTIONS), fresh.contexts(small, ACTIONS))


def test_order_of_python_sets_does_not_matter() -> None:
    code = (
        "from cbr_seeded_gat.groups import SeedGroups; from cbrcore.types import StateGraph\n"
        "facts = [(f'n{i}', f'r{i % 3}', f'n{i * 7 % 11}') for i in range(11)]\n"
        "print(SeedGroups.of([(StateGraph.of(facts), (f'n{i}', f'x{i}', 'n3')) for i in range(9)], 3))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]
    digests = {hashlib.sha256(run.communicate()[0]).hexdigest() for run in runs}
    assert [run.returncode for run in runs] == [0, 0]
    assert len(digests) == 1


# --- odd graphs ---------------------------------------------------------------------------------------------


def test_nothing_asked_gives_no_context() -> None:
    module = encoder()
    assert module.contexts(KITCHEN, []).shape == (0, module.dim)
    assert module.contexts_of_pairs([]).shape == (0, module.dim)


def test_empty_dark_rooms_in_a_batch() -> None:
    module = encoder(layers=3, relations=True).train()
    contexts = module.contexts_of_pairs([(StateGraph.of([]), ("lamp", f"key {i}")) for i in range(8)])
    contexts.sum().backward()
    assert contexts.isfinite().all()
    assert contexts.shape == (8, module.dim)


@pytest.mark.parametrize("graph", [StateGraph.of([]), StateGraph.of([], ["lamp"]), KITCHEN])
def test_indices_are_integers_whatever_the_graph(graph: StateGraph) -> None:
    edges = adjacency(graph)
    arrays = (edges.first, edges.neighbours, edges.edge_relations)
    assert all(array.dtype == "int64" and array.ndim == 1 for array in arrays)
    assert len(edges.first) == len(graph.nodes) + 1
    for layer in make_plan([(graph, ("lamp",))], 3).layers:
        tensors = [value for value in vars(layer).values() if isinstance(value, Tensor)]
        assert all(tensor.dtype == torch.long and tensor.ndim == 1 for tensor in tensors)


def test_entity_that_the_graph_lacks_is_an_isolated_node() -> None:
    module = encoder()
    with_ghost = StateGraph.of(KITCHEN.triples, [*KITCHEN.nodes, "ghost"])
    asked = [("ghost", "milk"), ("ghost",)]
    assert torch.equal(module.contexts(KITCHEN, asked), module.contexts(with_ghost, asked))


def test_isolated_node_keeps_its_own_row() -> None:
    graph = StateGraph.of([("key", "in", "box")], nodes=["lamp"])
    assert adjacency(graph).names == ("box", "key", "lamp")
    module = encoder()
    lamp, key, other = module.contexts(graph, [("lamp",), ("key",), ("rope",)])
    assert not torch.allclose(lamp, key, atol=1e-2)
    assert not torch.allclose(lamp, other, atol=1e-2)


@pytest.mark.parametrize("entities", [("a",), ("z",)])
def test_triple_without_its_node_is_named(entities: EntityTuple) -> None:
    broken = StateGraph(nodes=("a", "b"), triples=(("a", "in", "b"), ("a", "on", "attic")))
    with pytest.raises(CbrError, match=r"\('a', 'on', 'attic'\).*'attic'"):
        encoder().contexts(broken, [entities])


# --- how much is computed -----------------------------------------------------------------------------------


def test_fifteen_put_actions_need_eight_seeded_nodes() -> None:
    things, places = ["apple", "hat", "shirt"], ["fridge", "rack", "basket", "table", "shelf"]
    facts = [(thing, "in", "player") for thing in things] + [(place, "at", "room") for place in places]
    graph = StateGraph.of([*facts, ("player", "at", "room")])
    plan = make_plan([(graph, (thing, place)) for thing in things for place in places], layers=2)
    assert [layer.rows for layer in plan.layers] == [8, 8]
    assert plan.contexts == 15


def test_seeds_that_influence_each_other_are_computed_together() -> None:
    two = make_plan([(PATH, ("a", "c")), (PATH, ("a", "b"))], layers=2)
    assert two.layers[0].rows == 2 + 2  # a and c apart; a and b as one group
    three = make_plan([(PATH, ("a", "c"))], layers=3)
    assert [layer.rows for layer in three.layers] == [2, 3, 2]  # both seeds see b, once


# --- a module like others -----------------------------------------------------------------------------------


def test_dropout_acts_only_while_training() -> None:
    module = encoder(dropout=0.5)
    assert torch.equal(module.contexts(KITCHEN, ACTIONS), module.contexts(KITCHEN, ACTIONS))
    module.train()
    torch.manual_seed(1)
    first, second = module.contexts(KITCHEN, ACTIONS), module.contexts(KITCHEN, ACTIONS)
    torch.manual_seed(1)
    assert not torch.allclose(first, second)
    assert torch.equal(first, module.contexts(KITCHEN, ACTIONS))


def test_names_stay_apart_before_any_training() -> None:
    """Every (thing, place) has a context of its own, well away from the nearest other one."""
    torch.manual_seed(0)
    words = UntrainedEncoder(UntrainedConfig(dim=96), Build())
    module = SeededGat(SeededGatConfig(), Build(text_encoder=words)).train(False)
    things, places = [f"thing{i}" for i in range(8)], [f"place{i}" for i in range(5)]
    graph = StateGraph.of([(thing, "in", "player") for thing in things] + [(p, "at", "room") for p in places])
    with torch.no_grad():
        contexts = module.contexts(graph, [(thing, place) for thing in things for place in places])
    distances = torch.cdist(contexts, contexts) / contexts.norm(dim=1).mean()
    distances.fill_diagonal_(torch.inf)
    assert distances.min() > 0.25


def test_width_can_be_set() -> None:
    module = encoder(dim=20, heads=5)
    assert module.dim == 20
    assert module.contexts(KITCHEN, ACTIONS).shape == (len(ACTIONS), 20)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(CbrError, match=r"7 heads.*d = 24\s+set `heads` to 6, 8, 12, or set `dim`|4, 6, 8"):
        encoder(heads=7)


def test_text_encoder_is_required() -> None:
    with pytest.raises(CbrError, match="text encoder"):
        SeededGat(SeededGatConfig(), Build())


def test_situation_is_the_state_graph() -> None:
    module = encoder()
    observation = Observation("", "", "", (), KITCHEN)
    assert module.situation(observation, [observation]) is KITCHEN
    assert "dim=24" in repr(module)
    assert not any("names" in name for name in module.state_dict()), "the frozen text encoder is not trained"


def test_settings() -> None:
    assert SeededGatConfig().lambda_ == 0.8
    assert SeededGatConfig(**{"lambda": 0.5}).lambda_ == 0.5
    for wrong in ({"lambda": 1.5}, {"layers": 0}, {"dropout": 1.0}, {"heads": 0}, {"spread": 1}):
        with pytest.raises(ValueError):
            SeededGatConfig(**wrong)


def test_its_weights_are_on_the_device_that_was_asked_for() -> None:
    made = SeededGat(SeededGatConfig(heads=4, relations=True, dim=12), Build(text_encoder=WORDS, device="meta"))
    assert {each.device.type for each in (*made.parameters(), *made.buffers())} == {"meta"}
