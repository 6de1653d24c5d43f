"""KD codes by row, and the share of equal codes [P §4.2 "Memory access"]; exact."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SMALL = 15_000
"""Comparisons (queries x rows) up to which one broadcast is faster than going part by part. Measured on one CPU
thread with D = 32: 15 x 50 rows 0.1 ms against 0.8, 30 x 5,000 rows 42 ms against 11."""


class CodeIndex:
    """Codes [m, D] as bytes, stored part by part and grown by doubling.

    Args:
        parts: D.
        device: where the codes live.
    """

    def __init__(self, parts: int, device: str) -> None:
        self._codes = torch.zeros(parts, 64, dtype=torch.uint8, device=device)  # [D, capacity]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"CodeIndex({self._size} keys of {len(self._codes)} codes)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, D]."""
        needed = self._size + len(keys)
        if needed > self._codes.shape[1]:
            grown = self._codes.new_zeros(len(self._codes), max(needed, 2 * self._codes.shape[1]))
            grown[:, : self._size] = self._codes[:, : self._size]
            self._codes = grown
        self._codes[:, self._size : needed] = keys.T
        self._size = needed

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        chosen = torch.tensor(list(rows), dtype=torch.long, device=self._codes.device)
        self._codes[:, : len(chosen)] = self._codes[:, chosen]
        self._size = len(chosen)

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: the share of equal codes of each query [n, D] with each stored key."""
        stored = self._codes[:, : self._size]  # [D, m]
        if len(queries) * self._size <= SMALL:
            equal = (queries.T.unsqueeze(2) == stored.unsqueeze(1)).sum(dim=0)  # [n, m]
        else:
            equal = torch.zeros(len(queries), self._size, dtype=torch.int16, device=stored.device)
            for part, codes in zip(queries.T, stored, strict=True):
                equal += part.unsqueeze(1) == codes
        return equal.float() / len(self._codes)

    def keys(self) -> Tensor:
        """All keys [m, D]."""
        return self._codes[:, : self._size].T.contiguous()
