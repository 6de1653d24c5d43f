"""How KG-A2C reads: four texts by four readers, and the score in bits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbr_kga2c.config import DecoderConfig, ScorerConfig
from cbr_nn.memo import Memo
from cbr_nn.stem import ObservationReader
from cbr_nn.texts import TextGru, mean_rows
from cbr_nn.words import pieces
from cbrcore.interfaces import TextEncoder
from cbrcore.types import Observation

INPUTS = {"observation": ("observation",), "parts": ("description", "inventory", "feedback", "last_action")}
"""The texts of each value of the setting `inputs`."""


def part(observation: Observation, name: str) -> str:
    """One of an observation's texts; after reset the last action counts as "look"."""
    texts = {
        "observation": observation.text,
        "description": observation.description,
        "inventory": observation.inventory,
        "feedback": observation.feedback,
        "last_action": observation.last_action or "look",
    }
    return texts[name]


def bits(score: float, count: int) -> list[float]:
    """1 if the score is negative, then |score| in binary, the highest of the `count` - 1 digits first.

    A score with more digits is the largest number there is.
    """
    if not count:
        return []
    number = min(int(abs(score)), 2 ** (count - 1) - 1)
    return [float(score < 0), *(float(number >> place & 1) for place in reversed(range(count - 1)))]


class PartsReader(nn.Module):
    """[n, 2h] = ReLU(Linear([reader_1(text_1) ; ... ; score in bits])) of the observations."""

    def __init__(self, config: ScorerConfig | DecoderConfig, encoder: TextEncoder, project: nn.Linear) -> None:
        super().__init__()
        width, names = 2 * config.hidden, INPUTS[config.inputs]
        self.readers = nn.ModuleDict({name: TextGru(encoder, project, config.max_words) for name in names})
        self.merge = nn.Linear(len(names) * width + config.score_bits, width)
        self._unit = config.unit
        self._score_bits = config.score_bits

    def forward(self, memo: Memo, observations: Sequence[Observation]) -> Tensor:
        vectors = [
            mean_rows(memo, reader, [pieces(part(observation, name), self._unit) for observation in observations])
            for name, reader in self.readers.items()
        ]  # each [n, 2h]
        scores = vectors[0].new_tensor([bits(observation.score, self._score_bits) for observation in observations])
        merged: Tensor = torch.relu(self.merge(torch.cat([*vectors, scores], dim=1)))  # [n, 2h]
        return merged


def reader_of(config: ScorerConfig | DecoderConfig, encoder: TextEncoder, project: nn.Linear) -> nn.Module:
    """What gives [n, 2h] of the observations as the settings say."""
    if config.inputs == "observation" and not config.score_bits:
        return ObservationReader(config, encoder, project)
    return PartsReader(config, encoder, project)
