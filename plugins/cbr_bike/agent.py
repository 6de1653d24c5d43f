"""BiKE: a GRU policy over the observation text, the state graph and a commonsense graph [P §6.1].

text -> s_t as in the Text agent; state graph and commonsense graph -> graph attention -> nodes of each, which
attend to the nodes of the other; actor: MLP on [command ; what each graph says about it ; s_t].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_bike.config import BikeConfig
from cbr_commonsense.build import build_commonsense
from cbr_commonsense.graphs import EMPTY
from cbr_nn.attention import CoAttention, CommandAttention, NodeSelfAttention
from cbr_nn.graphs import HintedGraph, Nodes
from cbr_nn.memo import Memo
from cbr_nn.scoring import CommandScorer
from cbr_nn.stem import EpisodeState, Seen, TextStem
from cbr_nn.texts import required_encoder
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput


class TwoGraphPolicy(nn.Module):
    """Bidirectional attention between two graphs, then what each says about a command. Vectors are w = 2h wide."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__()
        self.meet = CoAttention(width)
        self.merge_local = nn.Linear(4 * width, width, bias=False)
        self.merge_world = nn.Linear(4 * width, width, bias=False)
        self.refine_local = NodeSelfAttention(width)
        self.refine_world = NodeSelfAttention(width)
        self.ask_local = CommandAttention(width)
        self.ask_world = CommandAttention(width)
        self.actor = CommandScorer(4, width, features)

    def forward(self, seen: Seen, local: Nodes, world: Nodes) -> Tensor:
        """Logits [n, A] from local nodes [n, L, w] and world nodes [n, W, w]."""
        here = self.merge_local(self.meet(local.vectors, world.vectors, local.mask, world.mask))  # [n, L, w]
        there = self.merge_world(self.meet(world.vectors, local.vectors, world.mask, local.mask))  # [n, W, w]
        here, there = self.refine_local(here, local.mask), self.refine_world(there, world.mask)
        about = [
            self.ask_local(seen.commands, seen.state, here, local.mask),
            self.ask_world(seen.commands, seen.state, there, world.mask),
        ]  # each [n, A, w]
        state = seen.state[:, None].expand_as(seen.commands)  # [n, A, w]
        scores: Tensor = self.actor([seen.commands, *about, state], seen.features)
        return scores


class BikeAgent(nn.Module):
    """pi(a|s) and V(s) from the observation text, the state graph and a commonsense graph.

    Shapes: h = hidden, n = inputs in a batch, A = admissible actions of one input.

    Attributes:
        handicaps: where the commonsense comes from.
    """

    def __init__(self, config: BikeConfig, build: Build) -> None:
        super().__init__()
        encoder = required_encoder(build, "bike")
        self.config = config
        self.device = torch.device(build.device)
        self.commonsense = build_commonsense(config.commonsense, build)
        self.handicaps = self.commonsense.handicaps
        self.project = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.project_concepts = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.stem = TextStem(config, encoder, self.project)
        self.local = HintedGraph(config, encoder, self.project, config.hint_commands)
        self.world = HintedGraph(config, encoder, self.project_concepts, config.hint_commands)
        self.action_features = build.action_features
        self.score = TwoGraphPolicy(2 * config.hidden, build.action_features)
        self.to(self.device)
        self._memo = Memo(self.parameters())

    def __repr__(self) -> str:
        return f"BikeAgent(hidden={self.config.hidden}, {self.commonsense!r})"

    def initial_state(self) -> EpisodeState:
        """Zeros [2h] and an empty graph; what was encoded in the last episode is forgotten."""
        self._memo.clear()
        return EpisodeState(torch.zeros(2 * self.config.hidden, device=self.device), EMPTY)

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], value [] and next `EpisodeState` for each input."""
        observations = [item.observation for item in inputs]
        worlds = [self.commonsense.grow(item.state.world, item.observation) for item in inputs]
        seen: Seen = self.stem(self._memo, inputs, [item.state.hidden for item in inputs])
        local = self.local(self._memo, [observation.graph for observation in observations], observations)
        world = self.world(self._memo, worlds, observations)
        states = [EpisodeState(hidden, graph) for hidden, graph in zip(seen.state.detach(), worlds, strict=True)]
        return seen.outputs(self.score(seen, local, world), states)
