"""Text: a GRU policy over the observation text [P §6.1].

words -> frozen vectors -> Linear -> bi-GRU -> observation vector -> state GRU -> s_t;
critic: Linear on s_t; actor: MLP on [command ; s_t] for each admissible command.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_text.config import TextConfig
from cbr_text.words import TextGru, sentences
from cbrcore import Build, CbrError
from cbrcore.freshness import FreshCache
from cbrcore.interfaces import AgentInput, PolicyOutput
from cbrcore.types import Observation


class TextAgent(nn.Module):
    """pi(a|s) and V(s) from the observation text.

    Shapes: h = hidden, n = inputs in a batch, A = admissible actions of one input, T = distinct texts.
    The recurrent state is a constant tensor [2h]: gradients do not cross steps, as in the TWC baselines.
    """

    def __init__(self, config: TextConfig, build: Build) -> None:
        super().__init__()
        if build.text_encoder is None:
            raise CbrError("the text agent needs a text encoder", hint="add `text_encoder:` to the recipe")
        self.config = config
        width = 2 * config.hidden
        self.device = torch.device(build.device)
        self.project = nn.Linear(build.text_encoder.dim, config.hidden, bias=False)
        self.read_observation = TextGru(build.text_encoder, self.project, config.max_words)
        self.read_command = TextGru(build.text_encoder, self.project, config.max_words)
        self.remember = nn.GRUCell(width, width)
        self.critic = nn.Linear(width, 1)
        self.actor = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))
        self.to(self.device)
        self._vectors: FreshCache[Tensor] = FreshCache(self.parameters())

    def __repr__(self) -> str:
        return f"TextAgent(hidden={self.config.hidden}, unit={self.config.unit!r})"

    def initial_state(self) -> Tensor:
        """[2h] zeros. Vectors cached in the last episode are forgotten, so that an episode's results do not
        depend on what was played before it in the same process."""
        self._vectors.clear()
        return torch.zeros(2 * self.config.hidden, device=self.device)

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """Logits [A], value [] and next state [2h] for each input."""
        observed = self._observations([item.observation for item in inputs])  # [n, 2h]
        before = torch.stack([item.state for item in inputs])  # [n, 2h]
        state = self.remember(observed, before)  # [n, 2h]
        values = self.critic(state).squeeze(-1)  # [n]
        counts = [len(item.observation.admissible) for item in inputs]
        commands = self._read(
            self.read_command, [action.text for item in inputs for action in item.observation.admissible]
        )  # [sum A, 2h]
        repeated = state.repeat_interleave(torch.tensor(counts, device=self.device), dim=0)  # [sum A, 2h]
        logits = self.actor(torch.cat([commands, repeated], dim=1)).squeeze(-1)  # [sum A]
        return [
            PolicyOutput(scores, value, following.detach())
            for scores, value, following in zip(torch.split(logits, counts), values, state, strict=True)
        ]

    def _observations(self, observations: Sequence[Observation]) -> Tensor:
        """[n, 2h]: the mean vector of each observation's pieces of text."""
        pieces = [self._pieces(observation.text) for observation in observations]
        vectors = self._read(self.read_observation, [piece for group in pieces for piece in group])
        return torch.stack([group.mean(dim=0) for group in torch.split(vectors, [len(group) for group in pieces])])

    def _pieces(self, text: str) -> list[str]:
        return [text] if self.config.unit == "observation" else sentences(text)

    def _read(self, reader: TextGru, texts: Sequence[str]) -> Tensor:
        """[len(texts), 2h], each distinct text read once; without gradients once until the parameters change."""
        distinct = list(dict.fromkeys(texts))
        if torch.is_grad_enabled():
            vectors: Tensor = reader(distinct)  # [T, 2h]
        else:
            cache = self._vectors.values()
            missing = [text for text in distinct if (reader, text) not in cache]
            if missing:
                cache.update({(reader, text): row for text, row in zip(missing, reader(missing), strict=True)})
            vectors = torch.stack([cache[reader, text] for text in distinct])
        row = {text: position for position, text in enumerate(distinct)}
        return vectors[torch.tensor([row[text] for text in texts], device=self.device)]
