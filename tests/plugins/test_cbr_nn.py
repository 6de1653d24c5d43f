"""Shared layers: by hand, against slow and obvious twins, and what padding must not change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.nn import GATConv

from cbr_nn.attention import CoAttention, CommandAttention, NodeSelfAttention, masked_softmax
from cbr_nn.config import ReadingConfig
from cbr_nn.graphs import GraphAttention, HintedGraph, edges, hint
from cbr_nn.memo import Memo
from cbr_nn.onegraph import OneGraphPolicy
from cbr_nn.padding import pack, pad, unpad
from cbr_nn.scoring import CommandScorer, features_of
from cbr_nn.stem import TextStem
from cbr_nn.texts import TextGru, mean_rows
from cbr_nn.words import pieces
from cbrcore import CbrError, StateGraph
from cbrcore.interfaces import AgentInput
from cbrcore.testing import DIM, WordHashEncoder, sample_observation

torch.set_num_threads(1)

WORDS = WordHashEncoder()
KITCHEN = StateGraph.of([("cup", "on", "table"), ("plate", "on", "table"), ("table", "at", "kitchen")], ["lamp"])
EMPTY = StateGraph(())


class TableOfNames:
    """A text encoder whose vectors a reader can see."""

    identity = "table"

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.dim = len(next(iter(vectors.values())))

    def encode(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([list(self.vectors[text]) for text in texts]).reshape(-1, self.dim)


def identity(width: int) -> nn.Linear:
    layer = nn.Linear(width, width, bias=False)
    nn.init.eye_(layer.weight)
    return layer


def fixed(layer: nn.Linear, rows: Sequence[Sequence[float]]) -> None:
    layer.weight = nn.Parameter(torch.tensor(rows))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- memo ---------------------------------------------------------------------------------------------------


class Doubler(nn.Module):
    """Encodes a number x as [weight * x, weight], and notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.asked: list[list[float]] = []

    def forward(self, numbers: Sequence[float]) -> Tensor:
        self.asked.append(list(numbers))
        return torch.stack([torch.stack([self.weight * x, self.weight]) for x in numbers])


@pytest.mark.parametrize("ask", [Memo.rows, Memo.each], ids=["rows", "each"])
def test_a_memo_encodes_each_input_once_until_a_parameter_changes(ask):
    encode = Doubler()
    memo = Memo(encode.parameters())
    with torch.no_grad():
        rows = [list(map(float, row)) for row in ask(memo, encode, [3.0, 1.0, 3.0])]
        ask(memo, encode, [1.0, 4.0])
        encode.weight.mul_(2)
        changed = ask(memo, encode, [1.0])
    assert rows == [[6, 2], [2, 2], [6, 2]]
    assert encode.asked == [[3, 1], [4], [1]]
    assert changed[0].tolist() == [4, 4]


@pytest.mark.parametrize("ask", [Memo.rows, Memo.each], ids=["rows", "each"])
def test_with_gradients_a_memo_encodes_each_input_once_per_call(ask):
    encode = Doubler()
    memo = Memo(encode.parameters())
    for _ in range(2):
        sum(row.sum() for row in ask(memo, encode, [3.0, 1.0, 3.0])).backward()
    assert encode.asked == [[3, 1], [3, 1]]
    assert encode.weight.grad == 2 * (4 + 2 + 4)


def test_a_memo_keeps_encoders_apart_and_forgets_when_told():
    one, other = Doubler(), Doubler()
    memo = Memo([one.weight, other.weight])
    with torch.no_grad():
        memo.rows(one, [1.0])
        memo.rows(other, [1.0])
        memo.clear()
        memo.rows(one, [1.0])
    assert (one.asked, other.asked) == ([[1], [1]], [[1]])


# --- padding ------------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@given(SIZES)
@settings(deadline=None, max_examples=30)
def test_padding_puts_every_row_in_its_group_and_nothing_else(sizes):
    rows = random(sum(sizes), 3)
    padded, mask = pad(rows, sizes)
    expected = torch.split(rows, sizes)
    assert padded.shape == (len(sizes), max(sizes), 3)
    assert mask.sum(dim=1).tolist() == sizes
    assert (padded[~mask] == 0).all()
    for group, one, back in zip(expected, padded, unpad(padded, sizes), strict=True):
        assert torch.equal(one[: len(group)], group)
        assert torch.equal(back, group)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
@settings(deadline=None, max_examples=30)
def test_packed_groups_are_what_torch_packs(sizes):
    rows = random(sum(sizes), 3)
    torch.manual_seed(0)
    gru = nn.GRU(3, 2, bidirectional=True)
    ours, theirs = gru(pack(rows, sizes))[1], gru(pack_sequence(torch.split(rows, sizes), enforce_sorted=False))[1]
    torch.testing.assert_close(ours, theirs)


# --- texts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_text_is_read_word_by_word_from_both_ends(bidirectional: bool):
    torch.manual_seed(0)
    project = nn.Linear(DIM, 4, bias=False)
    reader = TextGru(WORDS, project, max_words=3, bidirectional=bidirectional)
    vectors = reader(["A cup!", "take it", ""])
    for row, words in zip(vectors, [["a", "cup", "!"], ["take", "it"], ["."]], strict=True):
        _, final = reader.gru(project(WORDS.encode(words)))
        torch.testing.assert_close(row, final.flatten())
    assert vectors.shape == (3, 8 if bidirectional else 4)


def test_a_group_of_texts_is_their_mean():
    encode = Doubler()
    vectors = mean_rows(Memo(encode.parameters()), encode, [[1.0, 2.0], [5.0]])
    assert vectors.tolist() == [[3, 2], [10, 2]]
    assert encode.asked == [[1, 2, 5]]


# --- graphs -------------------------------------------------------------------------------------------------


def test_edges_go_both_ways_and_drop_relations():
    graph = StateGraph.of([("a", "on", "b"), ("c", "in", "b")], ["d"])
    assert sorted(map(tuple, edges(graph).tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert edges(EMPTY).shape == edges(StateGraph(("a", "b"))).shape == (0, 2)
    assert edges(EMPTY).dtype == "int64"


def test_a_triple_without_its_node_is_named():
    with pytest.raises(CbrError, match=r"\('cup', 'on', 'ghost'\)"):
        edges(StateGraph(("cup",), (("cup", "on", "ghost"),)))


def test_graph_attention_by_hand():
    """Attention vectors of zero: every node is the mean of itself, its neighbours and the sentinel (zero)."""
    names = TableOfNames({"cup": [6.0, 0.0], "table": [0.0, 3.0], "lamp": [-2.0, 8.0]})
    layer = GraphAttention(names, identity(2))
    layer.attention.lin = identity(2)
    nn.init.zeros_(layer.attention.att_src)
    nn.init.zeros_(layer.attention.att_dst)
    (nodes,) = layer([StateGraph.of([("cup", "on", "table")], ["lamp"])])
    expected = [
        [1.0, 2.75],  # the sentinel: (0 + cup + lamp + table) / 4
        [2.0, 1.0],  # cup: (0 + cup + table) / 3
        [math.expm1(-1.0), 4.0],  # lamp: (0 + lamp) / 2, and ELU
        [2.0, 1.0],  # table: as cup
    ]
    torch.testing.assert_close(nodes, torch.tensor(expected))


def sparse_twin(layer: GraphAttention, project: nn.Linear, graph: StateGraph) -> Tensor:
    """The same by torch-geometric's sparse layer, node 0 the sentinel."""
    count = len(graph.nodes)
    gat = GATConv(project.out_features, project.out_features, bias=False, add_self_loops=False)
    gat.lin.weight = layer.attention.lin.weight
    gat.att_src = nn.Parameter(layer.attention.att_src.detach()[0])
    gat.att_dst = nn.Parameter(layer.attention.att_dst.detach()[0])
    pairs = {pair for i in range(count + 1) for pair in ((i, i), (0, i), (i, 0))}
    for head, _, tail in graph.triples:
        i, j = 1 + graph.index[head], 1 + graph.index[tail]
        pairs |= {(i, j), (j, i)}
    features = torch.cat([torch.zeros(1, DIM), WORDS.encode([name.replace("_", " ") for name in graph.nodes])])
    return nn.functional.elu(gat(project(features), torch.tensor(sorted(pairs)).T))


NAMES = ["cup", "wine_glass", "table", "kitchen", "lamp"]
GRAPHS = st.builds(
    StateGraph.of,
    st.lists(st.tuples(st.sampled_from(NAMES), st.just("by"), st.sampled_from(NAMES)), max_size=6),
    st.sets(st.sampled_from(NAMES)),
)


@given(st.lists(GRAPHS, min_size=1, max_size=4))
@settings(deadline=None, max_examples=30)
def test_graph_attention_of_a_batch_is_that_of_its_graphs(graphs):
    torch.manual_seed(0)
    project = nn.Linear(DIM, 4, bias=False)
    layer = GraphAttention(WORDS, project)
    for graph, nodes in zip(graphs, layer(graphs), strict=True):
        torch.testing.assert_close(nodes, sparse_twin(layer, project, graph), atol=1e-5, rtol=1e-5)


def test_repeated_facts_do_not_weigh_more():
    layer = GraphAttention(WORDS, nn.Linear(DIM, 4, bias=False))
    once = StateGraph.of([("cup", "on", "table")])
    often = StateGraph.of([("cup", "on", "table"), ("cup", "in", "table"), ("table", "under", "cup")])
    torch.testing.assert_close(*(layer([graph])[0] for graph in (once, often)))


def test_a_hint_is_the_last_scored_commands_or_else_feedback_and_inventory():
    seen = sample_observation()
    assert hint(seen, 3) == "You see a cup.\nYou carry nothing."
    scored = replace(seen, scored=("a", "b", "c", "d"))
    assert (hint(scored, 3), hint(scored, 1)) == ("b\nc\nd", "d")
    assert hint(scored, 0) == hint(seen, 3)


def test_every_node_has_the_hint_beside_it():
    torch.manual_seed(0)
    config = ReadingConfig(hidden=4, unit="sentence")
    project = nn.Linear(DIM, 4, bias=False)
    layer = HintedGraph(config, WORDS, project, hint_commands=3)
    seen = [sample_observation(KITCHEN), sample_observation(EMPTY, scored=("take cup",))]
    nodes = layer(Memo(layer.parameters()), [KITCHEN, EMPTY], seen)
    assert nodes.mask.tolist() == [[True] * 6, [True] + [False] * 5]
    for row, observation, graph in zip(range(2), seen, [KITCHEN, EMPTY], strict=True):
        real = nodes.vectors[row][nodes.mask[row]]
        beside = layer.read_hint(pieces(hint(observation, 3), "sentence")).mean(dim=0)
        torch.testing.assert_close(real[:, :4], layer.read_graph([graph])[0])
        torch.testing.assert_close(real[:, 4:], beside.expand(len(real), 4))


# --- attention ----------------------------------------------------------------------------------------------


def everything(rows: Tensor) -> Tensor:
    return torch.ones(rows.shape[:2], dtype=torch.bool)


def test_a_masked_softmax_shares_one_among_the_real_places():
    scores = torch.tensor([[0.0, math.log(3.0), 50.0]])
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(masked_softmax(scores, mask, dim=1), torch.tensor([[0.25, 0.75, 0.0]]))


def test_co_attention_by_hand():
    """One context row c, queries q and r with S = (0, ln 3): A = q/4 + 3r/4; B = c, the only one there is."""
    layer = CoAttention(1)
    fixed(layer.context, [[0.0]])
    fixed(layer.query, [[math.log(3.0)]])
    nn.init.zeros_(layer.product)
    context, query = torch.tensor([[[2.0]]]), torch.tensor([[[0.0], [1.0]]])
    result = layer(context, query, everything(context), everything(query))
    torch.testing.assert_close(result, torch.tensor([[[2.0, 0.75, 1.5, 4.0]]]))


def test_co_attention_by_its_formulas():
    torch.manual_seed(0)
    layer = CoAttention(3)
    c, q = random(1, 4, 3, seed=1), random(1, 2, 3, seed=2)
    w_c, w_q, w_m = layer.context.weight[0].detach(), layer.query.weight[0].detach(), layer.product[0].detach()
    s = torch.tensor([[float(w_c @ ci + w_q @ qj + w_m @ (ci * qj)) for qj in q[0]] for ci in c[0]])
    s1, s2 = s.softmax(dim=1), s.softmax(dim=0)
    a, b = s1 @ q[0], s1 @ s2.T @ c[0]
    expected = torch.cat([c[0], a, c[0] * a, c[0] * b], dim=1)
    torch.testing.assert_close(layer(c, q, everything(c), everything(q))[0], expected)


def test_node_self_attention_is_scaled_dot_product_attention():
    torch.manual_seed(0)
    layer = NodeSelfAttention(6)
    nodes, mask = random(2, 5, 6), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    attended = nn.functional.scaled_dot_product_attention(
        layer.query(nodes), layer.key(nodes), layer.value(nodes), attn_mask=mask[:, None, :]
    )
    torch.testing.assert_close(layer(nodes, mask), layer.norm(layer.out(attended) + nodes))


def test_no_pair_of_nodes_is_left_out_whatever_their_number_of_edges():
    """The public code masks pairs by the product of their degrees as a byte: 16 x 16 edges gave 0."""
    torch.manual_seed(0)
    layer = NodeSelfAttention(4)
    nodes = random(1, 17, 4).requires_grad_()
    layer(nodes, everything(nodes))[0, 0].square().sum().backward()
    assert (nodes.grad[0].abs().sum(dim=1) > 0).all()


def test_command_attention_by_hand():
    """query = command + state; scores (0, ln 3) for two nodes; answer = tanh(attended + query)."""
    layer = CommandAttention(1)
    fixed(layer.ask[0], [[1.0, 0.0], [0.0, 1.0]])
    fixed(layer.ask[1], [[1.0, 1.0]])
    fixed(layer.answer[0], [[1.0, 1.0]])
    commands, state = torch.tensor([[[0.5]]]), torch.tensor([[0.5]])
    nodes = torch.tensor([[[0.0], [math.log(3.0)]]])
    answer = layer(commands, state, nodes, everything(nodes))
    torch.testing.assert_close(answer, torch.tensor([[[math.tanh(0.75 * math.log(3.0) + 1.0)]]]))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_padding_changes_no_attention(rows: int, others: int, more_rows: int, more_others: int):
    torch.manual_seed(0)
    meet, refine, ask = CoAttention(4), NodeSelfAttention(4), CommandAttention(4)
    a, b = random(1, rows, 4, seed=1), random(1, others, 4, seed=2)
    a2 = torch.cat([a, 9 * random(1, more_rows, 4, seed=3)], dim=1)
    b2 = torch.cat([b, 9 * random(1, more_others, 4, seed=4)], dim=1)
    mask_a, mask_b = torch.arange(a2.shape[1])[None] < rows, torch.arange(b2.shape[1])[None] < others
    state = random(1, 4, seed=5)
    plain = meet(a, b, everything(a), everything(b)), refine(a, everything(a)), ask(a, state, b, everything(b))
    padded = meet(a2, b2, mask_a, mask_b), refine(a2, mask_a), ask(a2, state, b2, mask_b)
    for one, other in zip(plain, padded, strict=True):
        torch.testing.assert_close(one, other[:, :rows], atol=1e-5, rtol=1e-5)
        assert torch.isfinite(other).all()


# --- putting it together ------------------------------------------------------------------------------------


def test_a_command_is_scored_by_an_mlp():
    layer = CommandScorer(2, 1)
    fixed(layer[0], [[1.0, -1.0]])
    fixed(layer[2], [[3.0]])
    nn.init.zeros_(layer[0].bias)
    nn.init.ones_(layer[2].bias)
    assert layer([torch.tensor([[5.0], [2.0]]), torch.tensor([[2.0], [5.0]])]).tolist() == [10.0, 1.0]


def test_features_of_a_command_stand_beside_its_vectors():
    layer = CommandScorer(1, 1, features=2)
    fixed(layer[0], [[1.0, 10.0, 100.0]])
    fixed(layer[2], [[1.0]])
    for linear in (layer[0], layer[2]):
        nn.init.zeros_(linear.bias)
    assert layer([torch.tensor([[5.0]])], torch.tensor([[2.0, 3.0]])).tolist() == [325.0]
    inputs = [AgentInput(sample_observation(), action_features=torch.full((3, 2), float(i))) for i in range(2)]
    assert features_of(inputs).tolist() == [[0.0, 0.0]] * 3 + [[1.0, 1.0]] * 3
    assert features_of([AgentInput(sample_observation())]) is None


def test_without_features_the_scorer_is_what_it_was():
    """The same numbers are drawn for its weights, and checkpoints keep their names."""
    torch.manual_seed(0)
    layer = CommandScorer(3, 4)
    torch.manual_seed(0)
    before = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 1))
    assert layer.state_dict().keys() == before.state_dict().keys()
    vectors = [random(2, 5, 4, seed=number) for number in range(3)]
    assert torch.equal(layer(vectors), before(torch.cat(vectors, dim=2)).squeeze(-1))


def test_the_stem_is_the_text_agent_without_its_actor():
    torch.manual_seed(0)
    project = nn.Linear(DIM, 4, bias=False)
    stem = TextStem(ReadingConfig(hidden=4), WORDS, project)
    seen = [
        sample_observation(),
        sample_observation(feedback="Taken.", admissible=sample_observation().admissible[:1]),
    ]
    before = [random(8, seed=1), random(8, seed=2)]
    result = stem(Memo(stem.parameters()), [AgentInput(observation) for observation in seen], before)
    assert result.features is None
    for row, (observation, state) in enumerate(zip(seen, before, strict=True)):
        after = stem.remember(stem.observe.reader([observation.text]), state[None])[0]
        torch.testing.assert_close(result.state[row], after)
        torch.testing.assert_close(result.value[row], stem.critic(after)[0])
        commands = stem.read_command([action.text for action in observation.admissible])
        torch.testing.assert_close(result.commands[row][result.mask[row]], commands)
    outputs = result.outputs(torch.arange(6.0).view(2, 3), ["first", "second"])
    assert [output.logits.tolist() for output in outputs] == [[0, 1, 2], [3]]
    assert [output.state for output in outputs] == ["first", "second"]


def test_the_layers_that_merge_in_the_one_graph_policy_have_no_bias():
    """As in the public TPC."""
    names = [name for name, _ in OneGraphPolicy(8).named_parameters() if name.startswith("merge")]
    assert names == ["merge_state.weight", "merge_nodes.weight"]


def test_one_graph_policy_by_its_parts():
    """Steps 4 to 7 of the public TPC, for one input without padding."""
    torch.manual_seed(0)
    policy = OneGraphPolicy(8)
    stem = TextStem(ReadingConfig(hidden=4), WORDS, nn.Linear(DIM, 4, bias=False))
    graph = HintedGraph(ReadingConfig(hidden=4), WORDS, nn.Linear(DIM, 4, bias=False), hint_commands=3)
    memo, seen = Memo([]), [sample_observation(KITCHEN)]
    shown, nodes = stem(memo, [AgentInput(seen[0])], [torch.zeros(8)]), graph(memo, [KITCHEN], seen)
    state, rows = shown.state[:, None], nodes.vectors
    informed = policy.merge_state(policy.meet(state, rows, everything(state), everything(rows)))
    met = policy.merge_nodes(policy.meet(rows, state, everything(rows), everything(state)))
    about = policy.ask(shown.commands, shown.state, policy.refine(met, everything(met)), everything(met))
    each = [policy.actor([c, g, informed[0, 0]]) for c, g in zip(shown.commands[0], about[0], strict=True)]
    torch.testing.assert_close(policy(shown, nodes)[0], torch.stack(each))
