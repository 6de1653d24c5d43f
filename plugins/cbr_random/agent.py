"""A policy without parameters: every admissible action is equally likely."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cbrcore import Build, NoSettings
from cbrcore.interfaces import AgentInput, PolicyOutput


class RandomAgent(torch.nn.Module):
    """pi(a|s) = 1/|A_t|, V(s) = 0."""

    def __init__(self, config: NoSettings, build: Build) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "RandomAgent()"

    def initial_state(self) -> None:
        return None

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Equal logits [A] and a value of zero for each input."""
        return [PolicyOutput(torch.zeros(len(item.observation.admissible)), torch.zeros(())) for item in inputs]
