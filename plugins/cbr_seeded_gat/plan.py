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
from cbr_seeded_gat.nodes import SeededNodes, Union, ints


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
    planner = _Planner(groups, layers, device)
    summed = ints(groups.context_seeds).reshape(-1, 2)
    return Plan(
        names=planner.names,
        entities=planner.entities(),
        layers=[planner.layer(number) for number in range(1, layers + 1)],
        relations=planner.union.relations,
        seed_rows=planner.put(summed[:, 1]),
        seed_contexts=planner.put(summed[:, 0]),
        contexts=max(groups.wanted, default=-1) + 1,
        wanted=planner.put(ints(groups.wanted)),
    )


class _Planner:
    """What the layers of one plan have in common: the seeded nodes by distance, and the plain nodes by name."""

    def __init__(self, groups: SeedGroups, layers: int, device: str) -> None:
        self.union = Union(groups)
        self._sizes = ints(groups.group_size)
        self._seeded = SeededNodes(groups, self.union, radius=(layers - 1) // 2)
        self._layers = layers
        self._device = device
        looked_at = np.union1d(self._seeded.node, self._seeded.edge_node)
        self.names, self._plain_row = self.union.names_of(looked_at)

    def put(self, array: Ints) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def entities(self) -> Tensor:
        """[s] |V_a| of each seed."""
        return self.put(self._sizes[self._seeded.group[: self._seeded.within(0)]])

    def layer(self, number: int) -> LayerPlan:
        """The indices of layer `number`, counted from 1."""
        seeded, plain = self._seeded, len(self.names)
        previous, rows, following = map(self._computed, (number - 1, number, number + 1))
        reached = max(rows, following)
        table_row = np.append(np.arange(previous) + plain, self._plain_row[seeded.node[previous:]])
        edges = int(np.searchsorted(seeded.edge_receiver, reached))
        row, node = seeded.edge_row[:edges], seeded.edge_node[:edges]
        return LayerPlan(
            rows=rows,
            next_rows=following,
            receivers=self.put(table_row[:reached]),
            edge_receiver=self.put(seeded.edge_receiver[:edges]),
            edge_source=self.put(np.where((row >= 0) & (row < previous), row + plain, self._plain_row[node])),
            edge_beta=self.put(np.where((row >= 0) & (row < rows), row, rows)),
            edge_relations=self.put(self.union.edge_relations[seeded.edge[:edges]]),
            message_edges=int(np.searchsorted(seeded.edge_receiver, rows)),
        )

    def _computed(self, number: int) -> int:
        """How many seeded nodes layer `number` computes; 0 before the first and after the last layer."""
        return self._seeded.within(min(number - 1, self._layers - number))
