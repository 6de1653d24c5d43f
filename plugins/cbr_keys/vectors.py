"""Continuous keys by row, and their cosine; exact."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cbr_keys.cosine import cosines, on_grid
from cbr_keys.places import Places
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
        self._places = Places()

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"CosineIndex({len(self)} keys)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, width]."""
        self._keys.add(keys)
        self._units.add(on_grid(keys.to(self.device)))
        self._places.add(len(keys))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        places = self._places.of(rows)
        self._keys.keep(places)
        self._units.keep(places)
        self._places.reset(len(places))

    def remove(self, row: int) -> None:
        """Forget one key; those behind it move up by one row."""
        self._places.remove(row)
        if self._places.crowded:
            self.keep(range(len(self)))

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: max(0, cos) of each query [n, width] with each stored key."""
        return cosines(on_grid(queries.to(self.device)), self._units.all())[:, self._places.all()]

    def keys(self) -> Tensor:
        """All keys [m, width]: do not write to it, it may be a view."""
        return self._keys.all()[self._places.all()]

    def key(self, row: int) -> Tensor:
        """[width]: a copy of one key."""
        return self._keys.all()[self._places[row]].clone()
