"""What the memory offered, again and with gradients: a joint agent and the retriever learn together [App. E]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cbrcore.cycle.reasoner import Trace
from cbrcore.cycle.retriever import Retriever


@dataclass(frozen=True)
class Offered:
    """The relevance of the candidates of some steps, with gradients to encoder and quantizer.

    Attributes:
        contexts: [p, d], one for each distinct pair of situation and seeds.
        relevance: [C] for each step, in the order of its candidates.
    """

    contexts: Tensor
    relevance: tuple[Tensor, ...]


def offered_again(retriever: Retriever, traces: Sequence[Trace]) -> Offered | None:
    """The candidates' contexts against the keys for which they were retrieved, which are constants.

    None if nothing was offered in any of the steps.
    """
    pairs = [(trace.situation, offer.seeds) for trace in traces for offer in trace.agent_input.candidates]
    if not pairs:
        return None
    row = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    contexts = retriever.encoder.contexts_of_pairs(list(row))  # [p, d]
    rows = torch.tensor([row[pair] for pair in pairs], device=contexts.device)  # [all C]
    keys = torch.stack([key for trace in traces for key in trace.candidate_keys])  # [all C, ...]
    similarity = retriever.quantizer.similarity(contexts.index_select(0, rows), keys)  # [all C]
    return Offered(contexts, torch.split(similarity, [len(trace.candidate_keys) for trace in traces]))
