"""Frozen vectors of names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from cbrcore.interfaces import TextEncoder


def mean_of_names(encoder: TextEncoder, groups: Sequence[Sequence[str]]) -> Tensor:
    """[g, w]: the mean over the encodings of the names in each group, 0 for an empty group."""
    row = {name: number for number, name in enumerate(dict.fromkeys(name for of in groups for name in of))}
    table = encoder.encode(list(row))  # [distinct names, w]
    rows = [row[name] for of in groups for name in of]
    starts = list(accumulate(map(len, groups[:-1]), initial=0))
    return F.embedding_bag(_indices(rows, table), table, _indices(starts, table), mode="mean")


def _indices(values: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=torch.long, device=like.device)
