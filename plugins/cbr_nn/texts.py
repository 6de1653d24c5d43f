"""From text to one vector: words in order, frozen word vectors, a GRU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cbr_nn.memo import Memo
from cbr_nn.padding import pack
from cbr_nn.words import words
from cbrcore import Build, CbrError
from cbrcore.interfaces import TextEncoder


class TextGru(nn.Module):
    """The final states of a GRU over a text's words; of a bi-GRU both, side by side.

    Shapes: h = width of the projection, w = width of a result: 2h, or h in one direction.

    Args:
        encoder: gives the frozen vector of each word.
        project: [word dim -> h], shared between readers.
        max_words: longer texts are cut at the end.
        bidirectional: read from both ends.
    """

    def __init__(
        self, encoder: TextEncoder, project: nn.Linear, max_words: int, *, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self._encoder = encoder
        self._project = (project,)  # in a tuple: its parameters belong to the agent, once
        self._max_words = max_words
        self.gru = nn.GRU(project.out_features, project.out_features, bidirectional=bidirectional)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """[n, w] for n texts."""
        tokens = [words(text)[: self._max_words] for text in texts]
        flat = self._encoder.encode([word for text in tokens for word in text])  # [all words, word dim]
        projected = self._project[0](flat)  # [all words, h]
        _, final = self.gru(pack(projected, [len(text) for text in tokens]))  # [directions, n, h]
        return torch.cat(list(final), dim=1)


def mean_rows(memo: Memo, reader: Callable[[Sequence[str]], Tensor], groups: Sequence[Sequence[str]]) -> Tensor:
    """[n, w]: the mean vector of each group of texts."""
    vectors = memo.rows(reader, [text for group in groups for text in group])
    return torch.stack([group.mean(dim=0) for group in torch.split(vectors, [len(group) for group in groups])])


def required_encoder(build: Build, agent: str) -> TextEncoder:
    """The recipe's text encoder.

    Raises:
        CbrError: it has none.
    """
    if build.text_encoder is None:
        raise CbrError(f"the {agent} agent needs a text encoder", hint="add `text_encoder:` to the recipe")
    return build.text_encoder
