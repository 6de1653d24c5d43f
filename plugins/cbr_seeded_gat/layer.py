"""One layer of seeded graph attention, and the feed-forward network that the paper uses everywhere."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbr_nn.feedforward import FeedForward
from cbr_seeded_gat.config import SeededGatConfig
from cbr_seeded_gat.plan import LayerPlan


class SeededAttention(nn.Module):
    """Layer l of seeded graph attention [P §4.1]:

        alpha_vu  = softmax over u in N(v) of LeakyReLU(a . [W h_v, W h_u])                  (per head)
        h_v^(l)   = FFN(h_v^(l-1) + beta_v^(l) sum_{u in N(v)} alpha_vu W h_u^(l-1))         (heads concatenated)
        beta_v^(l+1) = (1 - lambda) beta_v^(l) + lambda sum_{u in N(v)} alpha_vu beta_u^(l)  (alpha: mean of heads)

    Args:
        dim: d.
        relation_dim: width of a relation's text encoding, which W_r maps into the attention key
            (W h_u + W_r r_vu instead of W h_u); 0 for attention without relations.
        config: heads, lambda, slope, dropout.
    """

    def __init__(self, dim: int, relation_dim: int, config: SeededGatConfig) -> None:
        super().__init__()
        self.config = config
        self.head_dim = dim // config.heads
        self.value = nn.Linear(dim, dim, bias=False)  # W^(l)
        self.attend_own = nn.Parameter(torch.empty(config.heads, self.head_dim))  # a, its half for h_v
        self.attend_other = nn.Parameter(torch.empty(config.heads, self.head_dim))  # a, its half for h_u
        self.relation = nn.Linear(relation_dim, dim, bias=False) if relation_dim else None
        self.ffn = FeedForward(dim, dim)
        nn.init.orthogonal_(self.value.weight)
        nn.init.xavier_uniform_(self.attend_own)
        nn.init.xavier_uniform_(self.attend_other)

    def forward(
        self, plain: Tensor, seeded: Tensor, beta: Tensor, relations: Tensor | None, plan: LayerPlan
    ) -> tuple[Tensor, Tensor, Tensor]:
        """h^(l-1) -> h^(l), and beta^(l) -> beta^(l+1).

        Args:
            plain: [u, d] vectors of the nodes that no message reaches.
            seeded: [p, d] vectors that the previous layer computed per group of seeds.
            beta: [s] of the nodes that get a message in this layer.
            relations: [r, relation_dim] encodings of the relations; None without them.
            plan: the indices.

        Returns:
            plain [u, d] (empty after the last layer), seeded [s, d], beta [s of the next layer].
        """
        table = torch.cat([plain, seeded])  # [u + p, d]
        values = self.value(table).view(len(table), *self.attend_own.shape)  # [u + p, heads, d / heads]
        alpha = self._coefficients(values, relations, plan)  # [e, heads]
        own = table[plan.receivers[: plan.rows]] + beta.unsqueeze(1) * self._messages(
            values, alpha, plan
        )  # [s, d]
        still_read = plain if plan.next_rows else plain[:0]  # after the last layer only the seeds are
        updated = self.ffn(torch.cat([still_read, own]))  # [u + s, d]
        updated = F.dropout(updated, self.config.dropout, self.training)
        plain, seeded = updated.tensor_split((len(still_read),))
        return plain, seeded, self._spread(beta, alpha.mean(dim=1), plan)

    def _coefficients(self, values: Tensor, relations: Tensor | None, plan: LayerPlan) -> Tensor:
        """alpha [e, heads]."""
        own = (values[plan.receivers] * self.attend_own).sum(dim=-1)  # [r, heads]
        other = (values * self.attend_other).sum(dim=-1)  # [u + p, heads]
        scores = own[plan.edge_receiver] + other[plan.edge_source]  # [e, heads]
        if self.relation is not None and relations is not None:
            keys = self.relation(relations).view(len(relations), *self.attend_other.shape)
            scores = scores + (keys * self.attend_other).sum(dim=-1)[plan.edge_relations]
        scores = F.leaky_relu(scores, self.config.negative_slope)
        return softmax_at(plan.edge_receiver, scores, len(plan.receivers))

    def _messages(self, values: Tensor, alpha: Tensor, plan: LayerPlan) -> Tensor:
        """sum_u alpha_vu W h_u [s, d]; 0 for a node without neighbours."""
        edges = slice(plan.message_edges)
        weighted = alpha[edges].unsqueeze(-1) * values[plan.edge_source[edges]]  # [e, heads, d / heads]
        return _sum_at(plan.edge_receiver[edges], weighted.flatten(1), plan.rows)

    def _spread(self, beta: Tensor, alpha: Tensor, plan: LayerPlan) -> Tensor:
        """beta^(l+1) [next_rows]."""
        if not plan.next_rows:
            return beta[:0]
        arriving = alpha * F.pad(beta, (0, 1))[plan.edge_beta]  # [e]
        arrived = _sum_at(plan.edge_receiver, arriving, len(plan.receivers))[: plan.next_rows]
        stayed = F.pad(beta, (0, plan.next_rows - len(beta)))  # cut off where negative
        return (1 - self.config.lambda_) * stayed + self.config.lambda_ * arrived


def softmax_at(rows: Tensor, scores: Tensor, size: int) -> Tensor:
    """[e, heads] -> [e, heads]: the softmax over all scores that have the same row of `size`. As `softmax` of
    torch_geometric, to the bit; importing that package costs one to two seconds, half of a short run's start."""
    where = rows.unsqueeze(1).expand_as(scores)
    highest = scores.new_zeros(size, scores.shape[1])
    highest.scatter_reduce_(0, where, scores.detach(), reduce="amax", include_self=False)
    powers = (scores - highest[rows]).exp()
    return powers / _sum_at(rows, powers, size)[rows]


def _sum_at(rows: Tensor, summands: Tensor, size: int) -> Tensor:
    """[e, ...] -> [size, ...]: summand i is added to row ``rows[i]``."""
    return summands.new_zeros(size, *summands.shape[1:]).index_add(0, rows, summands)
