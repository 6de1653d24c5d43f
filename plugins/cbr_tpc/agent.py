"""TPC: a GRU policy over the observation text and a commonsense graph [P §6.1].

text -> s_t as in the Text agent; concepts seen so far -> commonsense graph -> graph attention -> nodes;
s_t and nodes attend to each other; actor: MLP on [command ; what the nodes say about it ; s'_t].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from cbr_commonsense.build import build_commonsense
from cbr_commonsense.graphs import EMPTY
from cbr_nn.graphs import HintedGraph
from cbr_nn.memo import Memo
from cbr_nn.onegraph import OneGraphPolicy
from cbr_nn.stem import EpisodeState, Seen, TextStem
from cbr_nn.texts import required_encoder
from cbr_tpc.config import TpcConfig
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput


class TpcAgent(nn.Module):
    """pi(a|s) and V(s) from the observation text and a commonsense graph.

    Shapes: h = hidden, n = inputs in a batch, A = admissible actions of one input.

    Attributes:
        handicaps: where the commonsense comes from.
    """

    def __init__(self, config: TpcConfig, build: Build) -> None:
        super().__init__()
        encoder = required_encoder(build, "tpc")
        self.config = config
        self.device = torch.device(build.device)
        self.commonsense = build_commonsense(config.commonsense, build)
        self.handicaps = self.commonsense.handicaps
        self.project = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.project_concepts = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.stem = TextStem(config, encoder, self.project)
        self.world = HintedGraph(config, encoder, self.project_concepts, config.hint_commands)
        self.action_features = build.action_features
        self.score = OneGraphPolicy(2 * config.hidden, build.action_features)
        self.to(self.device)
        self._memo = Memo(self.parameters())

    def __repr__(self) -> str:
        return f"TpcAgent(hidden={self.config.hidden}, {self.commonsense!r})"

    def initial_state(self) -> EpisodeState:
        """Zeros [2h] and an empty graph; what was encoded in the last episode is forgotten."""
        self._memo.clear()
        return EpisodeState(torch.zeros(2 * self.config.hidden, device=self.device), EMPTY)

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], value [] and next `EpisodeState` for each input."""
        observations = [item.observation for item in inputs]
        worlds = [self.commonsense.grow(item.state.world, item.observation) for item in inputs]
        seen: Seen = self.stem(self._memo, inputs, [item.state.hidden for item in inputs])
        logits = self.score(seen, self.world(self._memo, worlds, observations))  # [n, A]
        states = [EpisodeState(hidden, world) for hidden, world in zip(seen.state.detach(), worlds, strict=True)]
        return seen.outputs(logits, states)
