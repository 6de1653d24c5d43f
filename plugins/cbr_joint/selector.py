"""The action selector: attention between the admissible actions and the candidates [P App. E]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbrcore.interfaces import TextEncoder


class ActionSelector(nn.Module):
    """What the candidates have to say about each admissible action.

    A text is a frozen vector, then Linear and LayerNorm; the same ones for actions a_i and candidates c_j, so that
    attention is highest between equal texts from the start. c_0 is a learned vector that stands for "no
    candidate", with relevance delta_0 = 0: attention has somewhere to go when nothing fits or nothing was offered.

        alpha_i = softmax over j of (a_i · c_j / sqrt(w) + trust delta_j)
        u_i = sum_j alpha_ij c_j        rho_i = sum_j alpha_ij delta_j
        selector_i = [u_i ; a_i ⊙ u_i ; rho_i]

    Shapes: w = width, A = admissible actions, C = candidates.

    Attributes:
        dim: e = 2w + 1, the width of a selector.
    """

    def __init__(self, encoder: TextEncoder, width: int) -> None:
        super().__init__()
        self._encoder = encoder
        self.dim = 2 * width + 1
        self.project = nn.Linear(encoder.dim, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.nothing = nn.Parameter(torch.randn(width))
        self.trust = nn.Parameter(torch.ones(()))

    def read(self, texts: Sequence[str]) -> Tensor:
        """[n, w] of n texts."""
        vectors: Tensor = self.norm(self.project(self._encoder.encode(texts)))
        return vectors

    def forward(self, actions: Tensor, candidates: Tensor, relevance: Tensor) -> Tensor:
        """actions [A, w], candidates [C, w] and their relevance [C]; C may be 0 -> [A, 2w + 1]."""
        offered = torch.cat([self.nothing[None], candidates])  # [1 + C, w]
        delta = torch.cat([relevance.new_zeros(1), relevance])  # [1 + C]
        scores = actions @ offered.T / math.sqrt(actions.shape[1]) + self.trust * delta  # [A, 1 + C]
        attention = scores.softmax(dim=1)
        selected = attention @ offered  # u [A, w]
        return torch.cat([selected, actions * selected, (attention @ delta)[:, None]], dim=1)
