"""Binary codes, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def share_of_equal_bits(left: Tensor, right: Tensor) -> Tensor:
    """In the last dimension, of codes of 1 and -1; exact, since sums of so few whole numbers are."""
    return ((left * right).mean(dim=-1) + 1) / 2


class BitIndex:
    """Exact search over codes [m, c] of 1 and -1."""

    def __init__(self, bits: int, device: torch.device) -> None:
        self._keys = torch.zeros(0, bits, dtype=torch.int8, device=device)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"BitIndex({len(self)} keys of {self._keys.shape[1]} bits)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, c]."""
        self._keys = torch.cat([self._keys, keys.to(self._keys)])

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order."""
        self._keys = self._keys[list(rows)]

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m]: share of equal bits of queries [n, c] and stored keys."""
        equal = queries.to(self._keys.device).float() @ self._keys.float().T / self._keys.shape[1]
        return (equal + 1) / 2

    def keys(self) -> Tensor:
        """[m, c] int8."""
        return self._keys
