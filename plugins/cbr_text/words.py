"""From text to one vector: words in order, frozen word vectors, a bidirectional GRU."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from cbrcore.interfaces import TextEncoder

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def words(text: str) -> list[str]:
    """Lower-case words and punctuation marks in order; a single "." for a text without any."""
    return _WORD.findall(text.lower()) or ["."]


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, each once, in order; [""] for an empty text."""
    return list(dict.fromkeys(piece for piece in _SENTENCE_END.split(text.strip()) if piece)) or [""]


class TextGru(nn.Module):
    """The two final states of a bi-GRU over a text's words, side by side.

    Args:
        encoder: gives the frozen vector of each word.
        project: [word dim -> h], shared between readers.
        max_words: longer texts are cut at the end.
    """

    def __init__(self, encoder: TextEncoder, project: nn.Linear, max_words: int) -> None:
        super().__init__()
        self._encoder = encoder
        self._project = (project,)  # in a tuple: its parameters belong to the agent, once
        self._max_words = max_words
        self.gru = nn.GRU(project.out_features, project.out_features, bidirectional=True)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """[n, 2h] for n texts."""
        tokens = [words(text)[: self._max_words] for text in texts]
        flat = self._encoder.encode([word for text in tokens for word in text])  # [all words, word dim]
        projected = self._project[0](flat)  # [all words, h]
        packed = pack_sequence(projected.split([len(text) for text in tokens]), enforce_sorted=False)
        _, final = self.gru(packed)  # [2, n, h]
        return torch.cat([final[0], final[1]], dim=1)
