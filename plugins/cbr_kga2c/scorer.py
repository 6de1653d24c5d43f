"""KG-A2C: a GRU policy over the observation text and the state graph [P §6.1].

text -> s_t as in the Text agent; state graph G_t -> graph attention -> nodes; s_t and nodes attend to each other;
actor: MLP on [command ; what the nodes say about it ; s'_t].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_kga2c.config import ScorerConfig
from cbr_kga2c.reading import reader_of
from cbr_nn.graphs import HintedGraph
from cbr_nn.memo import Memo
from cbr_nn.onegraph import OneGraphPolicy
from cbr_nn.stem import Seen, TextStem
from cbr_nn.texts import required_encoder
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput


class ScorerAgent(nn.Module):
    """pi(a|s) and V(s) from the observation text and the state graph.

    Shapes: h = hidden, n = inputs in a batch, A = admissible actions of one input. The recurrent state is a
    constant tensor [2h].
    """

    def __init__(self, config: ScorerConfig, build: Build) -> None:
        super().__init__()
        encoder = required_encoder(build, "KG-A2C")
        self.config = config
        self.device = torch.device(build.device)
        self.project = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.stem = TextStem(config, encoder, self.project, reader_of(config, encoder, self.project))
        self.local = HintedGraph(config, encoder, self.project, config.hint_commands)
        self.action_features = build.action_features
        self.score = OneGraphPolicy(2 * config.hidden, build.action_features)
        self.to(self.device)
        self._memo = Memo(self.parameters())

    def __repr__(self) -> str:
        return f"ScorerAgent(hidden={self.config.hidden}, inputs={self.config.inputs!r})"

    def initial_state(self) -> Tensor:
        """[2h] zeros; what was encoded in the last episode is forgotten."""
        self._memo.clear()
        return torch.zeros(2 * self.config.hidden, device=self.device)

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], value [] and next state [2h] for each input."""
        observations = [item.observation for item in inputs]
        seen: Seen = self.stem(self._memo, inputs, [item.state for item in inputs])
        nodes = self.local(self._memo, [observation.graph for observation in observations], observations)
        return seen.outputs(self.score(seen, nodes), seen.state.detach())
