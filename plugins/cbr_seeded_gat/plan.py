"""Which nodes must be computed, and from which others: the exact shortcut of seeded graph attention, as indices.

A node whose coefficient beta_v^(l) is 0 gets no message, so its vector is FFN^(l)(h_v^(l-1)): the same for
every action, and in every graph. Call it *plain*; it is computed once per name. At layer l, beta is non-zero
at most l - 1 hops from V_a; and a context reads only V_a after the last layer n_l, so of layer l it needs
nodes at most n_l - l hops away. Both together: at layer l only the nodes within

    min(l - 1, n_l - l) hops of V_a

are computed per action. Call them *seeded*; for n_l = 2 they are the seeds alone. All others may be taken as
plain: they are, or nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cbr_seeded_gat.adjacency import Ints, Relations
from cbr_seeded_gat.groups import Pair, SeedGroups


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """The indices of layer l. Its *table* has the plain vectors of layer l - 1, then the seeded ones.

    Attributes:
        rows: s, how many seeded nodes this layer computes. In every list of seeded nodes the nearest to V_a
            come first, so that these are the first s.
        next_rows: the same of layer l + 1, for which beta is carried on; 0 at the last layer.
        receivers: [r] table rows of the first r = max(rows, next_rows) seeded nodes.
        edge_receiver: [e] which of the r an edge leads to, ascending.
        edge_source: [e] table row of the neighbour that it comes from.
        edge_beta: [e] which seeded node that neighbour is; s where its beta^(l) is 0.
        edge_relations: [e] row of `Plan.relations`.
        message_edges: how many edges lead to the first s receivers; they come first.
    """

    rows: int
    next_rows: int
    receivers: Tensor
    edge_receiver: Tensor
    edge_source: Tensor
    edge_beta: Tensor
    edge_relations: Tensor
    message_edges: int


@dataclass(frozen=True, eq=False)
class Plan:
    """All indices of a call.

    Attributes:
        names: [u] the names of the plain nodes.
        entities: [s] |V_a| of each seeded node of layer 1.
        layers: one per layer.
        relations: the distinct sets of relations that two nodes have.
        seed_rows, seed_contexts: [q] seeded node i of the last layer is summed into context j.
        contexts: number of distinct contexts.
        wanted: [n] the context of each pair.
    """

    names: list[str]
    entities: Tensor
    layers: list[LayerPlan]
    relations: list[Relations]
    seed_rows: Tensor
    seed_contexts: Tensor
    contexts: int
    wanted: Tensor


def make_plan(pairs: Sequence[Pair], layers: int, device: str = "cpu") -> Plan:
    """The indices for the contexts of `pairs` after `layers` layers.

    Raises:
        CbrError: a graph has a triple whose node it lacks.
    """
    groups = SeedGroups.of(pairs, layers)
    union = _Union(groups)
    seeded = _SeededNodes(groups, union, radius=(layers - 1) // 2)
    names, plain_row = union.names_of(np.union1d(seeded.node, seeded.edge_node))
    summed = _ints(groups.context_seeds).reshape(-1, 2)

    def put(array: Ints) -> Tensor:
        return torch.from_numpy(array).to(device)

    def layer(number: int) -> LayerPlan:
        previous, rows, following = (
            seeded.within(min(k - 1, layers - k)) for k in (number - 1, number, number + 1)
        )
        reached = max(rows, following)
        edges = int(np.searchsorted(seeded.edge_receiver, reached))
        row, node = seeded.edge_row[:edges], seeded.edge_node[:edges]
        return LayerPlan(
            rows=rows,
            next_rows=following,
            receivers=put(
                np.append(np.arange(previous) + len(names), plain_row[seeded.node[previous:]])[:reached]
            ),
            edge_receiver=put(seeded.edge_receiver[:edges]),
            edge_source=put(np.where((row >= 0) & (row < previous), row + len(names), plain_row[node])),
            edge_beta=put(np.where((row >= 0) & (row < rows), row, rows)),
            edge_relations=put(union.edge_relations[seeded.edge[:edges]]),
            message_edges=int(np.searchsorted(seeded.edge_receiver, rows)),
        )

    return Plan(
        names=names,
        entities=put(_ints(groups.group_size)[seeded.group[: seeded.within(0)]]),
        layers=[layer(number) for number in range(1, layers + 1)],
        relations=union.relations,
        seed_rows=put(summed[:, 1]),
        seed_contexts=put(summed[:, 0]),
        contexts=max(groups.wanted, default=-1) + 1,
        wanted=put(_ints(groups.wanted)),
    )


class _Union:
    """The edges of the disjoint union: those of node v are ``first[v] : first[v + 1]``."""

    def __init__(self, groups: SeedGroups) -> None:
        index: dict[Relations, int] = {}
        starts = np.cumsum([0, *(len(graph.neighbours) for graph in groups.graphs)])
        self._names = [name for graph in groups.graphs for name in graph.names]
        self.first = _join([graph.first[:-1] + start for graph, start in zip(groups.graphs, starts, strict=False)])
        self.first = np.append(self.first, starts[-1])
        self.neighbours = _join(
            [graph.neighbours + start for graph, start in zip(groups.graphs, groups.offset, strict=False)]
        )
        self.edge_relations = _join(
            [
                _ints([index.setdefault(names, len(index)) for names in graph.relations])[graph.edge_relations]
                for graph in groups.graphs
            ]
        )
        self.relations = list(index)

    def edges_of(self, nodes: Ints) -> tuple[Ints, Ints]:
        """All edges that lead to `nodes`: [e] position in `nodes`, ascending, and [e] number of the edge."""
        degree = self.first[nodes + 1] - self.first[nodes]
        receiver = np.repeat(np.arange(len(nodes)), degree)
        rank = np.arange(len(receiver)) - np.repeat(np.cumsum(degree) - degree, degree)
        return receiver, rank + self.first[nodes][receiver]

    def names_of(self, nodes: Ints) -> tuple[list[str], Ints]:
        """The distinct names of `nodes`, and for every node of the union its row among them (-1: not asked)."""
        rows: dict[str, int] = {}
        row_of_node = np.full(len(self._names), -1, dtype=np.int64)
        row_of_node[nodes] = [rows.setdefault(self._names[node], len(rows)) for node in nodes.tolist()]
        return list(rows), row_of_node


class _SeededNodes:
    """(group, node) for the nodes within `radius` hops of a group's seeds, nearest first, and their edges.

    Attributes:
        group, node: [s] which group; which node of the union.
        edge_receiver, edge, edge_node: [e] seeded node that an edge leads to, ascending; the edge; its other node.
        edge_row: [e] which seeded node of the same group that other node is; -1 if it is none.
    """

    def __init__(self, groups: SeedGroups, union: _Union, radius: int) -> None:
        offset, graph = _ints(groups.offset), _ints(groups.group_graph)
        spans = np.cumsum(np.append(0, np.diff(offset)[graph]))  # a slot for every (group, node of its graph)
        self._shift = spans[:-1] - offset[graph]
        self._row_of_slot = np.full(spans[-1], -1, dtype=np.int64)
        self.group, self.node = _ints(groups.seeds).reshape(-1, 2).T
        self._ends = [0]
        for _ in range(radius):
            self._number()
            receiver, edge = union.edges_of(self.node)
            group, node = self.group[receiver], union.neighbours[edge]
            slots, where = np.unique(self._shift[group] + node, return_index=True)
            where = where[self._row_of_slot[slots] < 0]
            self.group, self.node = np.append(self.group, group[where]), np.append(self.node, node[where])
        self._number()
        self.edge_receiver, self.edge = union.edges_of(self.node)
        self.edge_node = union.neighbours[self.edge]
        self.edge_row = self._row_of_slot[self._shift[self.group[self.edge_receiver]] + self.edge_node]

    def within(self, hops: int) -> int:
        """How many seeded nodes are at most `hops` away from their seeds; none for a negative number."""
        return self._ends[hops + 1]

    def _number(self) -> None:
        self._row_of_slot[self._shift[self.group] + self.node] = np.arange(len(self.node))
        self._ends.append(len(self.node))


def _ints(values: Sequence[int] | Sequence[tuple[int, int]]) -> Ints:
    return np.array(values, dtype=np.int64)


def _join(arrays: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])
