"""What every agent that adds a graph to the text does first: read observation and commands, remember, value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cbr_nn.config import ReadingConfig
from cbr_nn.memo import Memo
from cbr_nn.padding import pad
from cbr_nn.scoring import features_of
from cbr_nn.texts import TextGru, mean_rows
from cbr_nn.words import pieces
from cbrcore.interfaces import AgentInput, AgentState, PolicyOutput, TextEncoder
from cbrcore.types import Observation, StateGraph


class ObservationReader(nn.Module):
    """[n, 2h] of the observations' text."""

    def __init__(self, config: ReadingConfig, encoder: TextEncoder, project: nn.Linear) -> None:
        super().__init__()
        self.reader = TextGru(encoder, project, config.max_words)
        self._unit = config.unit

    def forward(self, memo: Memo, observations: Sequence[Observation]) -> Tensor:
        return mean_rows(memo, self.reader, [pieces(observation.text, self._unit) for observation in observations])


@dataclass(frozen=True)
class EpisodeState:
    """Recurrent memory of an agent with commonsense: the GRU's state [2h], a constant, and the episode's
    commonsense graph so far."""

    hidden: Tensor
    world: StateGraph


@dataclass(frozen=True)
class Seen:
    """What a batch of inputs shows: state s_t [n, 2h], value V(s_t) [n], commands [n, A, 2h] padded, their mask
    [n, A], and the commands' own features [n, A, e] if there are any."""

    state: Tensor
    value: Tensor
    commands: Tensor
    mask: Tensor
    features: Tensor | None = None

    def outputs(self, logits: Tensor, states: Iterable[AgentState]) -> list[PolicyOutput]:
        """One output per input, from logits [n, A] and each input's next state."""
        counts = self.mask.sum(dim=1).tolist()
        return [
            PolicyOutput(row[:count], value, state)
            for row, count, value, state in zip(logits, counts, self.value, states, strict=True)
        ]


class TextStem(nn.Module):
    """observation -> state GRU -> s_t; critic: Linear on s_t; commands -> bi-GRU. All vectors are 2h wide.

    Args:
        project: [word dim -> h]; it belongs to the agent.
        observe: gives the observations' vectors; one bi-GRU over their text if left out.
    """

    def __init__(
        self, config: ReadingConfig, encoder: TextEncoder, project: nn.Linear, observe: nn.Module | None = None
    ) -> None:
        super().__init__()
        width = 2 * config.hidden
        self.observe = observe or ObservationReader(config, encoder, project)
        self.read_command = TextGru(encoder, project, config.max_words)
        self.remember = nn.GRUCell(width, width)
        self.critic = nn.Linear(width, 1)

    def forward(self, memo: Memo, inputs: Sequence[AgentInput], before: Sequence[Tensor]) -> Seen:
        """`before`: the state [2h] of each input before its observation."""
        observations = [item.observation for item in inputs]
        state: Tensor = self.remember(self.observe(memo, observations), torch.stack(list(before)))  # [n, 2h]
        texts = [[action.text for action in observation.admissible] for observation in observations]
        commands = memo.rows(self.read_command, [text for group in texts for text in group])  # [sum A, 2h]
        counts, features = [len(group) for group in texts], features_of(inputs)
        padded, mask = pad(commands, counts)  # [n, A, 2h], [n, A]
        beside = None if features is None else pad(features, counts)[0]  # [n, A, e]
        return Seen(state, self.critic(state).squeeze(-1), padded, mask, beside)
