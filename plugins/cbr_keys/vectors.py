"""Continuous keys by row, and their cosine; exact."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cbr_keys.cosine import cosines, on_grid
from cbr_keys.rows import Rows


class CosineIndex:
    """Keys [m, width] as stored, and beside them their unit vectors: 12 bytes per coordinate.

    Args:
        width: of a key.
        device: where the keys are kept and compared.
    """

    def __init__(self, width: int, device: str) -> None:
        self.device = device
        self._keys = Rows(width, torch.float32, device)
        self._units = Rows(width, torch.float64, device)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"CosineIndex({len(self)} keys)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, width]."""
        self._keys.add(keys)
        self._units.add(on_grid(keys.to(self.device)))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._keys.keep(rows)
        self._units.keep(rows)

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: max(0, cos) of each query [n, width] with each stored key."""
        return cosines(on_grid(queries.to(self.device)), self.units())

    def keys(self) -> Tensor:
        """All keys [m, width]: a view, do not write to it."""
        return self._keys.all()

    def units(self) -> Tensor:
        """All keys as unit vectors on the grid [m, width] (`cbr_keys.cosine`): a view."""
        return self._units.all()
