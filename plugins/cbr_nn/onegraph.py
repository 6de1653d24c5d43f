"""The policy of the agents that read one graph beside the text: TPC and KG-A2C."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cbr_nn.attention import CoAttention, CommandAttention, NodeSelfAttention
from cbr_nn.graphs import Nodes
from cbr_nn.scoring import CommandScorer
from cbr_nn.stem import Seen


class OneGraphPolicy(nn.Module):
    """State and nodes attend to each other, nodes to nodes, commands to nodes; then each command is scored from
    [command ; what the graph says about it ; state], and e features of its own if there are any. Vectors are
    w = 2h wide."""

    def __init__(self, width: int, features: int = 0) -> None:
        super().__init__()
        self.meet = CoAttention(width)
        self.merge_state = nn.Linear(4 * width, width, bias=False)
        self.merge_nodes = nn.Linear(4 * width, width, bias=False)
        self.refine = NodeSelfAttention(width)
        self.ask = CommandAttention(width)
        self.actor = CommandScorer(3, width, features)

    def forward(self, seen: Seen, nodes: Nodes) -> Tensor:
        """Logits [n, A]."""
        state = seen.state[:, None]  # [n, 1, w]
        alone = torch.ones_like(state[:, :, 0], dtype=torch.bool)  # [n, 1]
        informed = self.merge_state(self.meet(state, nodes.vectors, alone, nodes.mask))  # [n, 1, w]
        vectors = self.merge_nodes(self.meet(nodes.vectors, state, nodes.mask, alone))  # [n, N, w]
        vectors = self.refine(vectors, nodes.mask)
        about = self.ask(seen.commands, seen.state, vectors, nodes.mask)  # [n, A, w]
        scores: Tensor = self.actor([seen.commands, about, informed.expand_as(about)], seen.features)
        return scores
