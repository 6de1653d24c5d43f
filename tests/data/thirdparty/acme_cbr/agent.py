"""A bag-of-words policy: small enough to read in a minute, yet it learns."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from acme_cbr.config import BagConfig
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput


class BagAgent(nn.Module):
    """pi(a|s) = softmax over A_t of bag(a)^T W bag(s); V(s) = w^T bag(s)."""

    def __init__(self, config: BagConfig, build: Build) -> None:
        super().__init__()
        self.buckets = config.buckets
        self.score = nn.Linear(config.buckets, config.buckets, bias=False, device=build.device)
        self.value = nn.Linear(config.buckets, 1, device=build.device)

    def __repr__(self) -> str:
        return f"BagAgent(buckets={self.buckets})"

    def initial_state(self) -> None:
        """It has no memory within an episode."""

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A] and value [] for each input."""
        return [self._one(item) for item in inputs]

    def _one(self, item: AgentInput) -> PolicyOutput:
        seen = self._bags([item.observation.text])[0]  # [buckets]
        actions = self._bags([action.text for action in item.observation.admissible])  # [A, buckets]
        return PolicyOutput(actions @ self.score(seen), self.value(seen).squeeze(-1))

    def _bags(self, texts: Sequence[str]) -> Tensor:
        """[n, buckets]: how often each bucket's words occur, rows of length 1."""
        bags = torch.zeros(len(texts), self.buckets, device=self.value.weight.device)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                bags[row, zlib.crc32(word.encode()) % self.buckets] += 1
        return nn.functional.normalize(bags, dim=1)
