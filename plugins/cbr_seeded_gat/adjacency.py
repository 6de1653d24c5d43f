"""Who is whose neighbour in a state graph: computed once per graph, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cbrcore.errors import CbrError
from cbrcore.types import StateGraph

Ints = NDArray[np.int64]
Relations = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Adjacency:
    """N(v) for every node of a graph, "considering the graph as undirected" [P §4.1]; no self-loops.

    The neighbours of node v are ``neighbours[first[v] : first[v + 1]]``; a pair of nodes with several triples
    is one edge, so that repeated facts do not weigh more.

    Attributes:
        names: node names; isolated nodes have a row too.
        first: [N + 1].
        neighbours: [E], each pair twice.
        relations: the distinct sets of relations that two nodes have, each sorted.
        edge_relations: [E], which of them an edge has.
    """

    names: tuple[str, ...]
    first: Ints
    neighbours: Ints
    relations: tuple[Relations, ...]
    edge_relations: Ints
    _near: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    def near(self, node: int, hops: int) -> frozenset[int]:
        """The nodes at most `hops` edges away from `node`, itself included."""
        if (node, hops) not in self._near:
            reached = frozenset({node})
            for _ in range(hops):
                reached = reached.union(*(self._around(v) for v in reached))
            self._near[node, hops] = reached
        return self._near[node, hops]

    def _around(self, node: int) -> list[int]:
        around: list[int] = self.neighbours[self.first[node] : self.first[node + 1]].tolist()
        return around


@lru_cache(maxsize=4096)
def adjacency(graph: StateGraph) -> Adjacency:
    """The adjacency of `graph`.

    Raises:
        CbrError: a triple names a node that the graph does not have.
    """
    between: list[dict[int, set[str]]] = [{} for _ in graph.nodes]
    for triple in graph.triples:
        head, relation, tail = triple
        try:
            v, u = graph.index[head], graph.index[tail]
        except KeyError as error:
            raise CbrError(
                f"the triple {triple!r} names {error.args[0]!r}, which is not a node of the state graph",
                hint="build state graphs with StateGraph.of(triples, nodes)",
            ) from None
        if v != u:
            between[v].setdefault(u, set()).add(relation)
            between[u].setdefault(v, set()).add(relation)
    edges = [(u, tuple(sorted(names))) for around in between for u, names in sorted(around.items())]
    relations = sorted({names for _, names in edges})
    return Adjacency(
        names=graph.nodes,
        first=np.cumsum([0, *map(len, between)], dtype=np.int64),
        neighbours=np.array([u for u, _ in edges], dtype=np.int64),
        relations=tuple(relations),
        edge_relations=np.array([relations.index(names) for _, names in edges], dtype=np.int64),
    )
