"""The seeded graph attention network as a context encoder [P §4.1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_nn.feedforward import FeedForward
from cbr_seeded_gat.config import SeededGatConfig
from cbr_seeded_gat.groups import Pair
from cbr_seeded_gat.layer import SeededAttention
from cbr_seeded_gat.plan import make_plan
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, TextEncoder
from cbrcore.types import EntityTuple, Observation, StateGraph


class SeededGat(nn.Module):
    """context = FFN_out(sum_{v in V_a} Linear(h_v^(n_l))), with h from seeded graph attention [P §4.1].

    h_v^(0) is the frozen text encoding of the node's name. A context depends on the state graph and on the
    action's entities as a set; an entity that the graph lacks is an isolated node.

    While training, dropout draws one mask per vector computed: a node that no message reaches has one mask in
    the call, a node near an action's entities one for that action.

    Raises:
        CbrError: there is no text encoder, or `heads` does not divide d.
    """

    def __init__(self, config: SeededGatConfig, build: Build) -> None:
        super().__init__()
        if build.text_encoder is None:
            raise CbrError("seeded_gat needs a text encoder", hint="add a `text_encoder` to the recipe")
        self.config = config
        self.device = build.device
        self._names: TextEncoder = build.text_encoder
        self.dim = config.dim or self._names.dim
        _require_divisor(self.dim, config.heads)
        self.project = nn.Identity() if self.dim == self._names.dim else nn.Linear(self._names.dim, self.dim)
        relation_dim = self._names.dim if config.relations else 0
        self.layers = nn.ModuleList(SeededAttention(self.dim, relation_dim, config) for _ in range(config.layers))
        self.seed = nn.Linear(self.dim, self.dim)
        self.out = FeedForward(self.dim, self.dim)
        nn.init.orthogonal_(self.seed.weight)
        nn.init.zeros_(self.seed.bias)
        self.to(build.device)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, layers={self.config.layers}, heads={self.config.heads}"

    def situation(self, observation: Observation, past: Sequence[Observation]) -> StateGraph:
        """The state graph; the past is in it already."""
        return observation.graph

    def contexts(self, situation: StateGraph, tuples: Sequence[EntityTuple]) -> Tensor:
        """[n, d]: one context per tuple of entities in one state graph."""
        return self.contexts_of_pairs([(situation, entities) for entities in tuples])

    def contexts_of_pairs(self, pairs: Sequence[Pair]) -> Tensor:
        """[n, d]: one context per pair of state graph and entities; the graphs are computed as one.

        Raises:
            CbrError: a graph has a triple whose node it lacks.
        """
        if not pairs:
            return self.seed.weight.new_zeros(0, self.dim)
        plan = make_plan(pairs, self.config.layers, self.device)
        plain: Tensor = self.project(self._names.encode(plan.names))  # [u, d] h^(0)
        seeded = plain.new_empty(0, self.dim)
        beta = plan.entities.to(plain.dtype).reciprocal()  # [s] beta^(1) = 1 / |V_a|
        relations = self._encode_relations(plan.relations) if self.config.relations else None
        for layer, indices in zip(self.layers, plan.layers, strict=True):
            plain, seeded, beta = layer(plain, seeded, beta, relations, indices)
        summands = self.seed(seeded)[plan.seed_rows]  # [q, d]
        summed = plain.new_zeros(plan.contexts, self.dim).index_add(0, plan.seed_contexts, summands)
        contexts: Tensor = self.out(summed)[plan.wanted]  # [n, d]
        return contexts

    def _encode_relations(self, relations: Sequence[tuple[str, ...]]) -> Tensor:
        """[r, width of the text encoder]: the mean over the names of a set of relations."""
        if not relations:
            return torch.empty(0, self._names.dim, device=self.device)
        return torch.stack([self._names.encode(names).mean(dim=0) for names in relations])


def _require_divisor(dim: int, heads: int) -> None:
    if dim % heads:
        near = sorted((n for n in range(1, dim + 1) if dim % n == 0), key=lambda n: (abs(n - heads), n))[:3]
        raise CbrError(
            f"context_encoder.heads: {heads} heads do not divide the width d = {dim}",
            hint=f"set `heads` to {', '.join(map(str, sorted(near)))}, or set `dim`",
        )
