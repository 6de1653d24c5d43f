"""Attention between a state, the nodes of graphs, and commands, as in the public TPC.

Shapes: n = inputs in a batch, C, Q, N, A = padded numbers of rows, w = width. A mask is True where a row is
real; every input has at least one real row. Rows that are padding give finite values that mean nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Softmax along `dim` over the places where `mask` (broadcast) is True; 0 elsewhere."""
    return scores.masked_fill(~mask, -math.inf).softmax(dim)


class CoAttention(nn.Module):
    """What two sets of rows have to say to each other, for each row of the first (the context).

    S_ij = w_c·c_i + w_q·q_j + w_m·(c_i ⊙ q_j);  S1 = softmax of S over j, S2 = softmax of S over i;
    A = S1 Q,  B = S1 S2ᵀ C;  the result is [C ; A ; C ⊙ A ; C ⊙ B].

    The public code adds a bias to S, which both softmaxes cancel; there is none here.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.context = nn.Linear(width, 1, bias=False)
        self.query = nn.Linear(width, 1, bias=False)
        self.product = nn.Parameter(torch.empty(1, width))
        for weight in (self.context.weight, self.query.weight, self.product):
            nn.init.xavier_uniform_(weight)

    def forward(self, context: Tensor, query: Tensor, context_mask: Tensor, query_mask: Tensor) -> Tensor:
        """context [n, C, w], query [n, Q, w], masks [n, C] and [n, Q] -> [n, C, 4w]."""
        scores = self.context(context) + self.query(query).mT + (context * self.product) @ query.mT  # [n, C, Q]
        over_query = masked_softmax(scores, query_mask[:, None, :], dim=2)  # S1
        over_context = masked_softmax(scores, context_mask[:, :, None], dim=1)  # S2
        attended = over_query @ query  # A [n, C, w]
        returned = over_query @ (over_context.mT @ context)  # B [n, C, w]
        return torch.cat([context, attended, context * attended, context * returned], dim=2)


class NodeSelfAttention(nn.Module):
    """One head of scaled dot-product attention of nodes to nodes; residual, then LayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.xavier_normal_(layer.weight)

    def forward(self, nodes: Tensor, mask: Tensor) -> Tensor:
        """nodes [n, N, w], mask [n, N] -> [n, N, w]."""
        scores = self.query(nodes) @ self.key(nodes).mT / math.sqrt(nodes.shape[-1])  # [n, N, N]
        attended = masked_softmax(scores, mask[:, None, :], dim=2) @ self.value(nodes)  # [n, N, w]
        normed: Tensor = self.norm(self.out(attended) + nodes)
        return normed


class CommandAttention(nn.Module):
    """What a graph has to say about each command: attention of [command ; state] to the nodes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ask = nn.Sequential(
            nn.Linear(2 * width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        )
        self.answer = nn.Sequential(nn.Linear(2 * width, width, bias=False), nn.Tanh())

    def forward(self, commands: Tensor, state: Tensor, nodes: Tensor, mask: Tensor) -> Tensor:
        """commands [n, A, w], state [n, w], nodes [n, N, w], mask [n, N] of the nodes -> [n, A, w]."""
        query = self.ask(torch.cat([commands, state[:, None].expand_as(commands)], dim=2))  # [n, A, w]
        attended = masked_softmax(query @ nodes.mT, mask[:, None, :], dim=2) @ nodes  # [n, A, w]
        answer: Tensor = self.answer(torch.cat([attended, query], dim=2))
        return answer
