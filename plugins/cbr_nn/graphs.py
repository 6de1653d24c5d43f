"""Graphs as vectors of their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.nn.dense import DenseGATConv

from cbr_nn.config import ReadingConfig
from cbr_nn.memo import Memo
from cbr_nn.padding import pad, unpad
from cbr_nn.texts import TextGru, mean_rows
from cbr_nn.words import pieces
from cbrcore.errors import CbrError
from cbrcore.interfaces import TextEncoder
from cbrcore.types import Observation, StateGraph


@lru_cache(maxsize=1024)
def edges(graph: StateGraph) -> NDArray[np.int64]:
    """[E, 2] rows of the nodes that a triple joins, in both directions; relations are dropped. E may be 0.

    Raises:
        CbrError: a triple names a node that the graph does not have.
    """
    joined = []
    for head, relation, tail in graph.triples:
        if head not in graph.index or tail not in graph.index:
            raise CbrError(
                f"the triple {(head, relation, tail)!r} names a node that the graph lacks",
                hint="build graphs with StateGraph.of(triples, nodes)",
            )
        joined += [(graph.index[head], graph.index[tail]), (graph.index[tail], graph.index[head])]
    return np.array(joined, dtype=np.int64).reshape(-1, 2)


class GraphAttention(nn.Module):
    """One layer of graph attention over the nodes' names, one head, ELU.

    A graph is undirected, with self-loops and a *sentinel*: a node without a name (the zero vector), joined to
    all others. It gives attention somewhere to go when no node matters, and an empty graph its one node.

    Shapes: h = width of the projection; a graph of N nodes gives [1 + N, h], the sentinel first.

    Args:
        encoder: gives the frozen vector of a node's name.
        project: [name dim -> h]; it belongs to the agent.
    """

    def __init__(self, encoder: TextEncoder, project: nn.Linear) -> None:
        super().__init__()
        self._encoder = encoder
        self._project = (project,)  # in a tuple: its parameters belong to the agent, once
        width = project.out_features
        self.attention = DenseGATConv(width, width, heads=1, negative_slope=0.2, bias=False)

    def forward(self, graphs: Sequence[StateGraph]) -> tuple[Tensor, ...]:
        """One [1 + N, h] per graph."""
        sizes = [1 + len(graph.nodes) for graph in graphs]
        features = self._features(graphs, max(sizes))  # [g, longest, h]
        joined = _adjacency(graphs, max(sizes)).to(features.device)  # [g, longest, longest]
        nodes = nn.functional.elu(self.attention(features, joined))  # adds the self-loops
        return unpad(nodes, sizes)

    def _features(self, graphs: Sequence[StateGraph], longest: int) -> Tensor:
        """[g, longest, h]: each distinct name is projected once; the sentinel and padding are zero."""
        row = {name: 1 + i for i, name in enumerate(dict.fromkeys(name for g in graphs for name in g.nodes))}
        places = np.zeros((len(graphs), longest), dtype=np.int64)
        for number, graph in enumerate(graphs):
            places[number, 1 : 1 + len(graph.nodes)] = [row[name] for name in graph.nodes]
        vectors = self._project[0].weight.new_zeros(1, self._project[0].out_features)
        if row:
            named = self._encoder.encode([name.replace("_", " ") for name in row])  # [names, name dim]
            vectors = torch.cat([vectors, self._project[0](named)])  # [1 + names, h]
        found = vectors.index_select(0, torch.from_numpy(places.ravel()).to(vectors.device))
        return found.view(*places.shape, -1)


def _adjacency(graphs: Sequence[StateGraph], longest: int) -> Tensor:
    """[g, longest, longest] bool: who is joined to whom, the sentinel in row 0; no self-loops."""
    joined = np.zeros((len(graphs), longest, longest), dtype=bool)
    for number, graph in enumerate(graphs):
        first, second = 1 + edges(graph).T
        joined[number, first, second] = True
        joined[number, 0, 1 : 1 + len(graph.nodes)] = joined[number, 1 : 1 + len(graph.nodes), 0] = True
    return torch.from_numpy(joined)


@dataclass(frozen=True)
class Nodes:
    """The nodes of a batch of graphs: vectors [n, N, w], mask [n, N] True where a node is real."""

    vectors: Tensor
    mask: Tensor


def hint(observation: Observation, commands: int) -> str:
    """What should guide the reading of a graph: the last `commands` commands that scored; before the first one,
    the feedback and the inventory."""
    last = observation.scored[-commands:] if commands else ()
    return "\n".join(last or (observation.feedback, observation.inventory))


class HintedGraph(nn.Module):
    """Nodes by graph attention, each with the vector of the hint beside it: [n, N, 2h]."""

    def __init__(
        self, config: ReadingConfig, encoder: TextEncoder, project: nn.Linear, hint_commands: int
    ) -> None:
        super().__init__()
        self.read_graph = GraphAttention(encoder, project)
        self.read_hint = TextGru(encoder, project, config.max_words, bidirectional=False)
        self._unit = config.unit
        self._hint_commands = hint_commands

    def forward(self, memo: Memo, graphs: Sequence[StateGraph], observations: Sequence[Observation]) -> Nodes:
        nodes = memo.each(self.read_graph, graphs)  # each [1 + its nodes, h]
        vectors, mask = pad(torch.cat(nodes), [len(rows) for rows in nodes])  # [n, N, h], [n, N]
        hints = [pieces(hint(observation, self._hint_commands), self._unit) for observation in observations]
        beside = mean_rows(memo, self.read_hint, hints)[:, None].expand_as(vectors)  # [n, N, h]
        return Nodes(torch.cat([vectors, beside], dim=2), mask)
