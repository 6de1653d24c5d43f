"""Text: a GRU policy over the observation text [P §6.1].

words -> frozen vectors -> Linear -> bi-GRU -> observation vector -> state GRU -> s_t;
critic: Linear on s_t; actor: MLP on [command ; s_t] for each admissible command.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_nn.memo import Memo
from cbr_nn.scoring import CommandScorer, features_of
from cbr_nn.texts import TextGru, mean_rows, required_encoder
from cbr_nn.words import pieces
from cbr_text.config import TextConfig
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput


class TextAgent(nn.Module):
    """pi(a|s) and V(s) from the observation text.

    Shapes: h = hidden, n = inputs in a batch, A = admissible actions of one input.
    The recurrent state is a constant tensor [2h]: gradients do not cross steps, as in the TWC baselines.
    """

    def __init__(self, config: TextConfig, build: Build) -> None:
        super().__init__()
        encoder = required_encoder(build, "text")
        self.config = config
        width = 2 * config.hidden
        self.device = torch.device(build.device)
        self.project = nn.Linear(encoder.dim, config.hidden, bias=False)
        self.read_observation = TextGru(encoder, self.project, config.max_words)
        self.read_command = TextGru(encoder, self.project, config.max_words)
        self.remember = nn.GRUCell(width, width)
        self.critic = nn.Linear(width, 1)
        self.action_features = build.action_features
        self.actor = CommandScorer(2, width, build.action_features)
        self.to(self.device)
        self._memo = Memo(self.parameters())

    def __repr__(self) -> str:
        return f"TextAgent(hidden={self.config.hidden}, unit={self.config.unit!r})"

    def initial_state(self) -> Tensor:
        """[2h] zeros; what was encoded in the last episode is forgotten."""
        self._memo.clear()
        return torch.zeros(2 * self.config.hidden, device=self.device)

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], value [] and next state [2h] for each input."""
        texts = [pieces(item.observation.text, self.config.unit) for item in inputs]
        observed = mean_rows(self._memo, self.read_observation, texts)  # [n, 2h]
        before = torch.stack([item.state for item in inputs])  # [n, 2h]
        state = self.remember(observed, before)  # [n, 2h]
        values = self.critic(state).squeeze(-1)  # [n]
        counts = [len(item.observation.admissible) for item in inputs]
        commands = self._memo.rows(
            self.read_command, [action.text for item in inputs for action in item.observation.admissible]
        )  # [sum A, 2h]
        repeated = state.repeat_interleave(torch.tensor(counts, device=self.device), dim=0)  # [sum A, 2h]
        logits = self.actor([commands, repeated], features_of(inputs))  # [sum A]
        return [
            PolicyOutput(scores, value, following.detach())
            for scores, value, following in zip(torch.split(logits, counts), values, state, strict=True)
        ]
