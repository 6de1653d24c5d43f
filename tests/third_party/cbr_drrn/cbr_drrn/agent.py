"""The agent: a softmax policy over Q."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from cbr_drrn.config import DrrnConfig
from cbr_drrn.network import QNetwork
from cbr_drrn.reading import Reading, reading
from cbrcore import AgentInput, Build, PolicyOutput


class DrrnAgent(nn.Module):
    """pi(a|s) = softmax of Q(s, a) / temperature over A_t, V(s) = max over A_t of Q(s, a)."""

    def __init__(self, config: DrrnConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.network = QNetwork(config).to(build.device)

    def __repr__(self) -> str:
        return f"DrrnAgent(hidden={self.config.hidden}, temperature={self.config.temperature})"

    def initial_state(self) -> None:
        """It remembers nothing within an episode."""

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A] and value [] for each input."""
        values = self.q_values([reading(item.observation) for item in inputs])
        return [PolicyOutput(each / self.config.temperature, each.max()) for each in values]

    def q_values(self, readings: Sequence[Reading]) -> list[Tensor]:
        """Q [A] of each reading's actions."""
        found: list[Tensor] = self.network(readings)
        return found
