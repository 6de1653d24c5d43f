"""Q(s, a): four GRUs and two layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cbr_drrn.config import DrrnConfig
from cbr_drrn.reading import Reading, numbers


class QNetwork(nn.Module):
    """Q(s, a) = w2 relu(W1 [feedback ; description ; inventory ; action]), each the last output of its own GRU.

    Shapes: n readings, A actions of one of them, h = hidden.
    """

    def __init__(self, config: DrrnConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(1 + config.buckets, config.embedding)
        self.read_feedback, self.read_description, self.read_inventory, self.read_action = (
            nn.GRU(config.embedding, config.hidden, batch_first=True) for _ in range(4)
        )
        self.above = nn.Linear(4 * config.hidden, config.hidden)
        self.score = nn.Linear(config.hidden, 1)

    def forward(self, readings: Sequence[Reading]) -> list[Tensor]:
        """Q [A] of each reading's actions."""
        state = torch.cat(
            [
                self._read(self.read_feedback, [each.feedback for each in readings]),
                self._read(self.read_description, [each.description for each in readings]),
                self._read(self.read_inventory, [each.inventory for each in readings]),
            ],
            dim=1,
        )  # [n, 3h]
        counts = [len(each.actions) for each in readings]
        actions = self._read(self.read_action, [action for each in readings for action in each.actions])
        rows = torch.repeat_interleave(torch.tensor(counts, device=state.device))  # [sum A]
        joined = torch.cat([state.index_select(0, rows), actions], dim=1)  # [sum A, 4h]
        values = self.score(torch.relu(self.above(joined))).squeeze(1)  # [sum A]
        return list(torch.split(values, counts))

    def _read(self, gru: nn.GRU, texts: Sequence[str]) -> Tensor:
        """[n, h] of n texts; each distinct one is read once."""
        config, device = self.config, self.words.weight.device
        row = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        sequences = [torch.tensor(numbers(text, config.buckets, config.max_words)) for text in row]
        vectors = self.words(pad_sequence(sequences, batch_first=True).to(device))  # [distinct, longest, e]
        outputs: Tensor = gru(vectors)[0]  # [distinct, longest, h]; padding comes after the last word
        ends = torch.tensor([len(sequence) - 1 for sequence in sequences], device=device)
        rows = torch.tensor([row[text] for text in texts], device=device)
        return outputs[rows, ends[rows]]
