"""Codes by row, and the share of equal codes [P §4.2 "Memory access"]; exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

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
        self._size = 0
        self._device = device

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"CodeIndex({self._size} keys of {len(self._codes)} codes)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, D]."""
        needed = self._size + len(keys)
        if needed > self._codes.shape[1]:
            grown = np.zeros((len(self._codes), max(needed, 2 * self._codes.shape[1])), dtype=np.uint8)
            grown[:, : self._size] = self._codes[:, : self._size]
            self._codes = grown
        self._codes[:, self._size : needed] = keys.cpu().numpy().T
        self._size = needed

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._codes[:, : len(rows)] = self._codes[:, np.asarray(rows, dtype=np.int64)]
        self._size = len(rows)

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: the share of equal codes of each query [n, D] with each stored key."""
        parts, asked = len(self._codes), queries.cpu().numpy()
        shares = np.empty((len(asked), self._size), dtype=np.float32)
        for start in range(0, self._size, _CHUNK):
            rows = slice(start, min(start + _CHUNK, self._size))
            equal = np.zeros((len(asked), rows.stop - start), dtype=np.min_scalar_type(parts))  # [n, rows]
            for part, codes in zip(asked.T, self._codes[:, rows], strict=True):
                equal += part[:, None] == codes
            np.divide(equal, np.float32(parts), out=shares[:, rows])
        return torch.from_numpy(shares).to(self._device)

    def keys(self) -> Tensor:
        """All keys [m, D], a copy."""
        return torch.from_numpy(self._codes[:, : self._size].T.copy()).to(self._device)
