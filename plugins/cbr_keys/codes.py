"""Codes by row, and the share of equal codes [P §4.2 "Memory access"]; exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cbr_keys.places import Places

_CHUNK = 16_384
"""Rows compared at a time, so that the counts stay in the processor's cache."""


class CodeIndex:
    """Codes [m, D] as bytes in main memory, stored part by part and grown by doubling.

    Comparing one part of all rows is one pass over neighbouring bytes, which numpy does many at a time.

    Args:
        parts: D.
        device: where the caller's tensors live; results go there.
    """

    def __init__(self, parts: int, device: str) -> None:
        self._codes = np.zeros((parts, 64), dtype=np.uint8)  # [D, capacity]
        self._places = Places()
        self._device = device

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"CodeIndex({len(self)} keys of {len(self._codes)} codes)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, D]."""
        stored, needed = self._places.stored, self._places.stored + len(keys)
        if needed > self._codes.shape[1]:
            grown = np.zeros((len(self._codes), max(needed, 2 * self._codes.shape[1])), dtype=np.uint8)
            grown[:, :stored] = self._codes[:, :stored]
            self._codes = grown
        self._codes[:, stored:needed] = keys.cpu().numpy().T
        self._places.add(len(keys))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._codes[:, : len(rows)] = self._codes[:, np.array(self._places.of(rows), dtype=np.int64)]
        self._places.reset(len(rows))

    def remove(self, row: int) -> None:
        """Forget one key; those behind it move up by one row."""
        self._places.remove(row)
        if self._places.crowded:
            self.keep(range(len(self)))

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: the share of equal codes of each query [n, D] with each stored key."""
        parts, asked, stored = len(self._codes), queries.cpu().numpy(), self._places.stored
        shares = np.empty((len(asked), stored), dtype=np.float32)
        for start in range(0, stored, _CHUNK):
            rows = slice(start, min(start + _CHUNK, stored))
            equal = np.zeros((len(asked), rows.stop - start), dtype=np.min_scalar_type(parts))  # [n, rows]
            for part, codes in zip(asked.T, self._codes[:, rows], strict=True):
                equal += part[:, None] == codes
            np.divide(equal, np.float32(parts), out=shares[:, rows])
        return torch.from_numpy(shares[:, self._places.all()]).to(self._device)

    def keys(self) -> Tensor:
        """All keys [m, D], a copy."""
        return torch.from_numpy(self._codes[:, self._places.all()].T.copy()).to(self._device)

    def key(self, row: int) -> Tensor:
        """[D]: a copy of one key."""
        return torch.from_numpy(self._codes[:, self._places[row]].copy()).to(self._device)
