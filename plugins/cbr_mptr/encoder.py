"""The multi-paragraph text-based retriever as a context encoder [P App. F]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbr_mptr.config import MultiParagraphConfig
from cbr_mptr.paragraphs import Passage, choose, passage_of
from cbr_nn.feedforward import FeedForward
from cbr_nn.names import mean_of_names
from cbrcore import Build, CbrError, Observation
from cbrcore.interfaces import TextEncoder
from cbrcore.types import EntityTuple


class MultiParagraphEncoder(nn.Module):
    """context = FFN([e(o_t) ; e(p_1) ; ... ; e(p_n) ; mean_{v in V_a} e(v)])  [P App. F]

    e is the frozen text encoder; o_t the text of the observation; p_1 ... p_n the earlier paragraphs chosen for
    the action (`paragraphs.choose`), a vector of zeros where there are fewer. The names of the entities V_a, a
    set, tell actions apart for which the same paragraphs are chosen.

    Shapes: w = width of the text encoder, n = `history`, d = `dim`.

    Raises:
        CbrError: there is no text encoder.
    """

    def __init__(self, config: MultiParagraphConfig, build: Build) -> None:
        super().__init__()
        if build.text_encoder is None:
            raise CbrError("mptr needs a text encoder", hint="add a `text_encoder` to the recipe")
        self.config = config
        self.device = build.device
        self._texts: TextEncoder = build.text_encoder
        self.dim = config.dim or self._texts.dim
        self.ffn = FeedForward((config.history + 2) * self._texts.dim, self.dim)
        self.to(build.device)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, history={self.config.history}, prefer={self.config.prefer}"

    def situation(self, observation: Observation, past: Sequence[Observation]) -> Passage:
        """The observation's text, and the earlier paragraphs that share an object with it."""
        return passage_of(observation, past, self.config.history)

    def contexts_of_pairs(self, pairs: Sequence[tuple[Passage, EntityTuple]]) -> Tensor:
        """[n, d]: one context per pair of passage and entities. Each distinct text is encoded once per call (and
        once per process by the text encoder), never once per action."""
        if not pairs:
            return torch.zeros(0, self.dim, device=self.device)
        inputs = torch.cat([self._read(pairs), self._name(pairs)], dim=1)  # [n, (1 + history + 1) * w]
        contexts: Tensor = self.ffn(inputs)
        return contexts

    def _read(self, pairs: Sequence[tuple[Passage, EntityTuple]]) -> Tensor:
        """[n, (1 + history) * w]: the observation, then the earlier paragraphs; zeros where there is none."""
        count, prefer = self.config.history, self.config.prefer
        texts = [[passage[0], *choose(passage, names, count, prefer=prefer)] for passage, names in pairs]
        row = {text: number for number, text in enumerate(dict.fromkeys(text for of in texts for text in of))}
        table = self._texts.encode(list(row))  # [distinct texts, w]
        table = F.pad(table, (0, 0, 0, 1))  # the last row is "no paragraph"
        rows = [[row[text] for text in of] + [len(row)] * (1 + count - len(of)) for of in texts]
        return table[torch.tensor(rows, device=table.device)].flatten(1)  # [n, 1 + history, w] -> [n, ...]

    def _name(self, pairs: Sequence[tuple[Passage, EntityTuple]]) -> Tensor:
        """[n, w]: the mean encoding of the names of V_a, zeros if there are none."""
        groups = [sorted(set(entities)) for _, entities in pairs]
        return mean_of_names(self._texts, groups)
