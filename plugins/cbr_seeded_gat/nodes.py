"""The nodes of a call as arrays: the union of all graphs, and the nodes that are computed per group of seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbr_seeded_gat.adjacency import Ints, Relations
from cbr_seeded_gat.groups import SeedGroups


class Union:
    """The disjoint union of the graphs of a call.

    Attributes:
        first: [N + 1], the edges that lead to node v are ``first[v] : first[v + 1]``.
        neighbours: [E], the node that an edge comes from.
        relations: the distinct sets of relations that two nodes have.
        edge_relations: [E], which of them an edge has.
    """

    def __init__(self, groups: SeedGroups) -> None:
        graphs, rows = groups.graphs, dict[Relations, int]()
        starts = np.cumsum([0, *(len(graph.neighbours) for graph in graphs)])  # of a graph's edges
        shifted = zip(graphs, starts[:-1], groups.offset[:-1], strict=True)
        first, neighbours = [], []
        for graph, edge, node in shifted:
            first.append(graph.first[:-1] + edge)
            neighbours.append(graph.neighbours + node)
        self.first = np.append(_join(first), starts[-1])
        self.neighbours = _join(neighbours)
        of_graph = [ints([rows.setdefault(names, len(rows)) for names in graph.relations]) for graph in graphs]
        self.edge_relations = _join([of[graph.edge_relations] for of, graph in zip(of_graph, graphs, strict=True)])
        self.relations = list(rows)
        self._names = [name for graph in graphs for name in graph.names]

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


class SeededNodes:
    """(group, node) for the nodes within `radius` hops of a group's seeds, nearest first, and their edges.

    Attributes:
        group, node: [s] which group; which node of the union.
        edge_receiver, edge, edge_node: [e] seeded node that an edge leads to, ascending; the edge; its other node.
        edge_row: [e] which seeded node of the same group that other node is; -1 if it is none.
    """

    def __init__(self, groups: SeedGroups, union: Union, radius: int) -> None:
        offset, graph = ints(groups.offset), ints(groups.group_graph)
        spans = np.cumsum(np.append(0, np.diff(offset)[graph]))  # a slot for every (group, node of its graph)
        self._shift = spans[:-1] - offset[graph]
        self._row_of_slot = np.full(spans[-1], -1, dtype=np.int64)
        self.group, self.node = ints(groups.seeds).reshape(-1, 2).T
        self._ends = [0]
        self._number()
        for _ in range(radius):
            self._grow(union)
            self._number()
        self.edge_receiver, self.edge = union.edges_of(self.node)
        self.edge_node = union.neighbours[self.edge]
        self.edge_row = self._row_of_slot[self._shift[self.group[self.edge_receiver]] + self.edge_node]

    def within(self, hops: int) -> int:
        """How many seeded nodes are at most `hops` away from their seeds; none for a negative number."""
        return self._ends[hops + 1]

    def _grow(self, union: Union) -> None:
        """Append the neighbours that are not there yet."""
        receiver, edge = union.edges_of(self.node)
        group, node = self.group[receiver], union.neighbours[edge]
        slots, where = np.unique(self._shift[group] + node, return_index=True)
        where = where[self._row_of_slot[slots] < 0]
        self.group, self.node = np.append(self.group, group[where]), np.append(self.node, node[where])

    def _number(self) -> None:
        """Note the row of every node, and that they all are within one hop more."""
        self._row_of_slot[self._shift[self.group] + self.node] = np.arange(len(self.node))
        self._ends.append(len(self.node))


def ints(values: Sequence[int] | Sequence[tuple[int, int]]) -> Ints:
    """Integers also where there are none (numpy would make an empty list one of floats)."""
    return np.array(values, dtype=np.int64)


def _join(arrays: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])
