"""Hash tables over contexts: candidates by bucket, the cosine for them alone [P App. C]."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from cbr_keys.cosine import cosines, on_grid
from cbr_keys.places import Places
from cbr_keys.rows import Rows
from cbrcore.freshness import FreshCache


class HashIndex:
    """Table i puts a vector into the bucket of its h signs, one per hyperplane (0 counts as positive).

    The candidates of a query are the union of its l buckets, of each bucket the `bucket_size` most recent entries,
    that is those of the highest rows. After `keep` and `remove` the buckets are those of a new index given what is
    left, in that order; an entry that had been pushed out of a bucket comes back when newer ones leave.

    Args:
        planes: [l, h, d], the quantizer's own buffer. If it changes (a checkpoint is loaded), all is hashed again.
        bucket_size: most entries of a bucket that are looked at.
    """

    def __init__(self, planes: Tensor, *, bucket_size: int) -> None:
        self._planes = planes
        self._bucket_size = bucket_size
        self._keys = Rows(planes.shape[-1], torch.float32, str(planes.device))
        self._units = Rows(planes.shape[-1], torch.float64, str(planes.device))
        self._places = Places()
        self._fresh: FreshCache[Tensor] = FreshCache([planes])  # empty: the first use makes the buckets

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"HashIndex({len(self)} keys, {len(self._planes)} tables of {self._planes.shape[1]} bits)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, d]."""
        planes, start = self._current_planes(), self._places.stored
        self._keys.add(keys)
        self._units.add(on_grid(keys.to(planes.device)))
        self._places.add(len(keys))
        for place, codes in enumerate(self._hash(self._units.all()[start:], planes), start):
            self._codes.append(codes)
            self._insert(place)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._current_planes()
        places = self._places.of(rows)
        self._keys.keep(places)
        self._units.keep(places)
        self._places.reset(len(places))
        self._fill([self._codes[place] for place in places])

    def remove(self, row: int) -> None:
        """Forget one key; those behind it move up by one row."""
        self._current_planes()
        place = self._places.remove(row)
        for bucket in enumerate(self._codes[place]):
            entries = self._buckets[bucket]
            del entries[bisect_left(entries, place)]
        if self._places.crowded:
            self.keep(range(len(self)))

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: max(0, cos) of each query [n, d] with its candidates, -inf with all others."""
        planes, units = self._current_planes(), self._units.all()
        asked = on_grid(queries.to(planes.device))
        found = torch.full((len(asked), len(units)), -torch.inf, device=asked.device)
        for row, codes in enumerate(self._hash(asked, planes)):
            candidates = self._candidates(codes)
            found[row, candidates] = cosines(asked[row : row + 1], units[candidates])[0]
        return found[:, self._places.all()]

    def keys(self) -> Tensor:
        """All keys [m, d]: do not write to it, it may be a view."""
        return self._keys.all()[self._places.all()]

    def key(self, row: int) -> Tensor:
        """[d]: a copy of one key."""
        return self._keys.all()[self._places[row]].clone()

    def _candidates(self, codes: Sequence[int]) -> list[int]:
        """Places of the most recent entries of the buckets, one bucket per table."""
        buckets = [self._buckets[bucket] for bucket in enumerate(codes) if bucket in self._buckets]
        return sorted({place for entries in buckets for place in entries[-self._bucket_size :]})

    def _hash(self, units: Tensor, planes: Tensor) -> list[list[int]]:
        """The codes [n][l] of vectors on the grid [n, d] by planes on the grid [l * h, d]. Exact, so a vector
        falls into the same buckets whatever is hashed with it."""
        tables, bits = self._planes.shape[:2]
        signs = (units @ planes.T >= 0).view(len(units), tables, bits)
        weights = 2 ** torch.arange(bits, device=units.device)
        codes: list[list[int]] = (signs * weights).sum(dim=-1).tolist()
        return codes

    def _insert(self, place: int) -> None:
        for bucket in enumerate(self._codes[place]):
            self._buckets[bucket].append(place)

    def _fill(self, codes: list[list[int]]) -> None:
        """Make the buckets anew, from the codes [stored][l] of all that is stored."""
        self._codes = codes
        self._buckets: dict[tuple[int, int], list[int]] = defaultdict(list)  # places, ascending
        for place in self._places.of(range(len(self))):
            self._insert(place)

    def _current_planes(self) -> Tensor:
        """The hyperplanes on the grid [l * h, d]; if they have changed, all stored keys are hashed again."""
        cache = self._fresh.values()
        if not cache:
            cache["planes"] = on_grid(self._planes.flatten(0, 1))
            self._fill(self._hash(self._units.all(), cache["planes"]))
        return cache["planes"]
