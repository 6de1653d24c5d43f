"""Rows of a tensor that grows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Rows:
    """[m, width], grown by doubling, so that adding one row at a time costs little.

    A row is never written twice: what `all` returned stays true, also after rows were added or dropped.
    """

    def __init__(self, width: int, dtype: torch.dtype, device: str) -> None:
        self._rows = torch.empty(0, width, dtype=dtype, device=device)  # [capacity, width]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"Rows({self._size} of {self._rows.shape[1]})"

    def add(self, rows: Tensor) -> None:
        """Append rows [n, width], from any device and of any type."""
        needed = self._size + len(rows)
        if needed > len(self._rows):
            grown = self._rows.new_empty(max(needed, 2 * self._size, 64), self._rows.shape[1])
            grown[: self._size] = self.all()
            self._rows = grown
        self._rows[self._size : needed] = rows
        self._size = needed

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._rows = self._rows[torch.tensor(rows, dtype=torch.long, device=self._rows.device)]
        self._size = len(rows)

    def all(self) -> Tensor:
        """All rows [m, width]: a view, do not write to it."""
        return self._rows[: self._size]
