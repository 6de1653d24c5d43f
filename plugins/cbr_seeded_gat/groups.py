"""The graphs of a call as one disjoint union, and the groups of seeds whose nodes must be computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cbr_seeded_gat.adjacency import Adjacency, adjacency
from cbrcore.types import EntityTuple, StateGraph

Pair = tuple[StateGraph, EntityTuple]


@dataclass(eq=False)
class SeedGroups:
    """What the pairs (graph, entities) of a call ask for.

    Seeds of one action more than n_l - 1 hops apart cannot influence each other within n_l layers. They are
    computed apart, as groups, and a group is computed once for all actions of the graph that have it (and as
    many entities, because beta^(1) = 1/|V_a|).

    Attributes:
        graphs: the graphs, each with the entities that its actions name.
        offset: node v of graph g is node ``offset[g] + v`` of the union.
        seeds: (group, node of the union), group by group.
        group_graph, group_size: of each group, its graph and |V_a| of its actions.
        context_seeds: (context, position in `seeds`): what is summed into a context.
        wanted: the context of each pair; equal pairs share one.
    """

    graphs: list[Adjacency] = field(default_factory=list)
    offset: list[int] = field(default_factory=lambda: [0])
    seeds: list[tuple[int, int]] = field(default_factory=list)
    group_graph: list[int] = field(default_factory=list)
    group_size: list[int] = field(default_factory=list)
    context_seeds: list[tuple[int, int]] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, pairs: Sequence[Pair], layers: int) -> SeedGroups:
        """Join the graphs of `pairs` and find the groups for `layers` layers."""
        groups = cls()
        contexts: dict[tuple[StateGraph, frozenset[str]], int] = {}
        by_graph: dict[StateGraph, list[tuple[int, frozenset[str]]]] = {}
        for graph, entities in pairs:
            key = (graph, frozenset(entities))  # V_a is a set: order and repetition do not count
            if key not in contexts:
                by_graph.setdefault(graph, []).append((len(contexts), key[1]))
            groups.wanted.append(contexts.setdefault(key, len(contexts)))
        for graph, asked in by_graph.items():
            groups._add_graph(graph, asked, layers - 1)
        return groups

    def _add_graph(self, graph: StateGraph, asked: list[tuple[int, frozenset[str]]], hops: int) -> None:
        known = with_nodes(graph, frozenset().union(*(entities for _, entities in asked)))
        edges, number, start = adjacency(known), len(self.graphs), self.offset[-1]
        self.graphs.append(edges)
        self.offset.append(start + len(known.nodes))
        places: dict[tuple[tuple[int, ...], int], int] = {}  # of a group's first seed in `seeds`
        for context, entities in asked:
            for group in _split(sorted(known.index[name] for name in entities), edges, hops):
                key = (group, len(entities))
                if key not in places:
                    places[key] = len(self.seeds)
                    self.seeds.extend((len(self.group_graph), start + node) for node in group)
                    self.group_graph.append(number)
                    self.group_size.append(len(entities))
                self.context_seeds.extend((context, places[key] + i) for i in range(len(group)))


def with_nodes(graph: StateGraph, names: frozenset[str]) -> StateGraph:
    """`graph`, with an isolated node for each name that it lacks."""
    missing = names.difference(graph.index)
    return StateGraph(tuple(sorted({*graph.nodes, *missing})), graph.triples) if missing else graph


def _split(seeds: list[int], edges: Adjacency, hops: int) -> list[tuple[int, ...]]:
    """The seeds in groups of which no two have seeds within `hops` of each other."""
    groups: list[list[int]] = []
    for seed in seeds:
        near = edges.near(seed, hops)
        touching = [group for group in groups if not near.isdisjoint(group)]
        groups = [group for group in groups if group not in touching]
        groups.append(sorted([seed, *(other for group in touching for other in group)]))
    return [tuple(group) for group in groups]
