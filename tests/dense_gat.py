"""Seeded graph attention straight from the formulas [P §4.1]: every entity tuple x every node, no shortcut."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cbr_nn.feedforward import FeedForward
from cbr_seeded_gat.encoder import SeededGat
from cbr_seeded_gat.layer import SeededAttention
from cbrcore.types import EntityTuple, StateGraph


def dense_contexts(encoder: SeededGat, graph: StateGraph, tuples: Sequence[EntityTuple]) -> Tensor:
    """[n, d]: the reference for `SeededGat.contexts` without dropout."""
    names = sorted({*graph.nodes, *(name for entities in tuples for name in entities)})
    vectors = encoder.project(encoder._names.encode(names))  # [N, d]
    relations = _relation_vectors(encoder, graph, names)  # [N, N, text width]
    edges = torch.zeros(len(names), len(names), dtype=torch.bool)
    for head, _, tail in graph.triples:
        if head != tail:
            edges[names.index(head), names.index(tail)] = edges[names.index(tail), names.index(head)] = True

    seeds = torch.tensor([[float(name in entities) for name in names] for entities in tuples])  # [n, N]
    beta = seeds / seeds.sum(dim=1, keepdim=True).clamp(min=1)
    h = vectors.expand(len(tuples), *vectors.shape)  # [n, N, d]
    for layer in encoder.layers:
        assert isinstance(layer, SeededAttention)
        h, beta = _layer(layer, h, beta, edges, relations)
    return _ffn(encoder.out, (seeds.unsqueeze(-1) * encoder.seed(h)).sum(dim=1))


def _layer(
    layer: SeededAttention, h: Tensor, beta: Tensor, edges: Tensor, relations: Tensor
) -> tuple[Tensor, Tensor]:
    heads, width = layer.attend_own.shape
    wh = (h @ layer.value.weight.T).unflatten(-1, (heads, width))  # [n, N, heads, width]
    keys = wh.unsqueeze(1)  # [n, 1, N, heads, width]
    if layer.relation is not None:
        keys = keys + (relations @ layer.relation.weight.T).unflatten(-1, (heads, width))
    score = torch.einsum("nvhk,hk->nvh", wh, layer.attend_own).unsqueeze(2) + torch.einsum(
        "nvuhk,hk->nvuh", keys, layer.attend_other
    )
    score = torch.where(score > 0, score, layer.config.negative_slope * score)
    score = score.masked_fill(~edges[None, :, :, None], -torch.inf)
    alpha = score.softmax(dim=2).nan_to_num(0.0)  # [n, v, u, heads]; a node without neighbours: 0
    message = torch.einsum("nvuh,nuhk->nvhk", alpha, wh).flatten(2)
    spread = torch.einsum("nvu,nu->nv", alpha.mean(dim=-1), beta)
    lambda_ = layer.config.lambda_
    return _ffn(layer.ffn, h + beta.unsqueeze(-1) * message), (1 - lambda_) * beta + lambda_ * spread


def _ffn(ffn: FeedForward, x: Tensor) -> Tensor:
    first, _, second = ffn
    return (x @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias


def _relation_vectors(encoder: SeededGat, graph: StateGraph, names: Sequence[str]) -> Tensor:
    """[N, N, text width]: the mean encoding of the relations between two nodes, in either direction."""
    width = encoder._names.dim
    vectors = torch.zeros(len(names), len(names), width)
    for v, left in enumerate(names):
        for u, right in enumerate(names):
            between = sorted({r for head, r, tail in graph.triples if {head, tail} == {left, right}})
            if between and v != u:
                vectors[v, u] = encoder._names.encode(between).mean(dim=0)
    return vectors
