"""Codes by row, and the share of equal codes [P §4.2 "Memory access"]; exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbr_keys.best import Best, best_of
from cbr_keys.buckets import NEW, Buckets, Rows
from cbr_keys.places import Places

_CHUNK = 16_384
"""Rows compared at a time, so that the counts stay in the processor's cache."""
_HASHED, _SKEWED = 32_768, 8
"""From so many rows on buckets are asked first; where more than one row in so many is in a query's buckets, all
rows are compared at once instead."""


class CodeIndex:
    """Codes [m, D] as bytes in main memory, stored part by part and grown by half.

    Comparing one part of all rows is one pass over neighbouring bytes, which numpy does many at a time. Where
    there are many rows, `best_above` looks at those alone that share a piece of their code with the query.

    Args:
        parts: D.
        device: where the caller's tensors live; results go there.
    """

    def __init__(self, parts: int, device: str) -> None:
        self._codes = np.zeros((parts, 64), dtype=np.uint8)  # [D, capacity]
        self._places = Places()
        self._device = device
        self._buckets: Buckets | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"CodeIndex({len(self)} keys of {len(self._codes)} codes)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, D]."""
        stored, needed = self._places.stored, self._places.stored + len(keys)
        if needed > self._codes.shape[1]:
            grown = np.zeros((len(self._codes), max(needed, self._codes.shape[1] * 3 // 2)), dtype=np.uint8)
            grown[:, :stored] = self._codes[:, :stored]
            self._codes = grown
        self._codes[:, stored:needed] = keys.cpu().numpy().T
        self._places.add(len(keys))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._codes[:, : len(rows)] = self._codes[:, np.array(self._places.of(rows), dtype=np.int64)]
        self._places.reset(len(rows))
        self._buckets = None

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

    def best_above(self, queries: Tensor, threshold: float) -> list[Best | None]:
        """See `FindsBest`: exact, and hardly slower with more keys, as long as these are spread."""
        if not len(self):
            return [None] * len(queries)
        least = self._least_equal(threshold)
        if len(self) < _HASHED or least is None or not least:
            return best_of(self.similarities(queries), threshold)
        asked, buckets = queries.cpu().numpy(), self._hashed(least)
        near = [buckets.near(code, self._places.stored // _SKEWED) for code in asked]
        crowded = [row for row, places in enumerate(near) if places is None]
        compared = iter(best_of(self.similarities(queries[crowded]), threshold) if crowded else ())
        return [
            next(compared) if places is None else self._best_of(code, places, least, buckets)
            for code, places in zip(asked, near, strict=True)
        ]

    def _least_equal(self, threshold: float) -> int | None:
        """How many equal codes are above the threshold; None if all are too few."""
        shares = np.arange(len(self._codes) + 1, dtype=np.float32) / np.float32(len(self._codes))
        enough = np.flatnonzero(shares > np.float32(threshold))
        return int(enough[0]) if len(enough) else None

    def _hashed(self, least: int) -> Buckets:
        """The buckets for that many equal codes, with all rows but the newest."""
        parts, stored = len(self._codes), self._places.stored
        if self._buckets is None or self._buckets.differing != parts - least:
            self._buckets = Buckets(parts, parts - least)
        if stored - len(self._buckets) > NEW:
            self._buckets.take_in(self._codes[:, len(self._buckets) : stored].T)
        return self._buckets

    def _best_of(self, code: NDArray[np.uint8], near: Rows, least: int, buckets: Buckets) -> Best | None:
        """The best of the places that are near the code [D], and of the newest."""
        first, last = len(buckets), self._places.stored
        new = (self._codes[:, first:last] == code[:, None]).sum(axis=0, dtype=np.int64)  # [rows]
        equal = np.concatenate([(buckets.codes[near] == code).sum(axis=1, dtype=np.int64), new])
        places = np.concatenate([near, np.arange(first, last)])
        fitting = equal >= least
        equal, places = equal[fitting], places[fitting]
        rows = self._places.rows(places)  # -1 for those that have left
        equal, rows = equal[rows >= 0], rows[rows >= 0]
        if not len(rows):
            return None
        best = equal.max()
        share = float(np.float32(best) / np.float32(len(self._codes)))
        return share, np.unique(rows[equal == best]).tolist()

    def keys(self) -> Tensor:
        """All keys [m, D], a copy."""
        return torch.from_numpy(self._codes[:, self._places.all()].T.copy()).to(self._device)

    def key(self, row: int) -> Tensor:
        """[D]: a copy of one key."""
        return torch.from_numpy(self._codes[:, self._places[row]].copy()).to(self._device)
