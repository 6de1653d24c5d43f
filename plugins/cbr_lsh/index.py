"""Hash tables over contexts: candidates by bucket, the cosine for them alone [P App. C]."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import torch
from torch import Tensor

from cbr_keys.cosine import cosines, on_grid
from cbr_keys.vectors import CosineIndex
from cbrcore.freshness import FreshCache


class HashIndex:
    """Table i puts a vector into the bucket of its h signs, one per hyperplane (0 counts as positive).

    The candidates of a query are the union of its l buckets, of each bucket the `bucket_size` most recent entries,
    that is those of the highest rows. After `keep` the buckets are those of a new index given the rows in that
    order; an entry that had been pushed out of a bucket comes back when newer ones leave.

    Args:
        planes: [l, h, d], the quantizer's own buffer. If it changes (a checkpoint is loaded), all is hashed again.
        bucket_size: most entries of a bucket that are looked at.
    """

    def __init__(self, planes: Tensor, *, bucket_size: int) -> None:
        self._planes = planes
        self._bucket_size = bucket_size
        self._vectors = CosineIndex(planes.shape[-1], str(planes.device))
        self._codes: list[list[int]] = []  # [m][l]
        self._fresh: FreshCache[Tensor] = FreshCache([planes])
        self._fill()

    def __len__(self) -> int:
        return len(self._vectors)

    def __repr__(self) -> str:
        return f"HashIndex({len(self)} keys, {len(self._planes)} tables of {self._planes.shape[1]} bits)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, d]."""
        self._vectors.add(keys)
        planes = self._current_planes()
        for codes in self._hash(self._vectors.units()[len(self._codes) :], planes):
            self._insert(codes)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._current_planes()
        self._vectors.keep(rows)
        kept = [self._codes[row] for row in rows]
        self._fill(kept)

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m] float32: max(0, cos) of each query [n, d] with its candidates, -inf with all others."""
        asked = on_grid(queries.to(self._vectors.device))
        units = self._vectors.units()
        found = torch.full((len(asked), len(self)), -torch.inf, device=asked.device)
        for row, codes in enumerate(self._hash(asked, self._current_planes())):
            candidates = self._candidates(codes)
            found[row, candidates] = cosines(asked[row : row + 1], units[candidates])[0]
        return found

    def keys(self) -> Tensor:
        """All keys [m, d]: a view, do not write to it."""
        return self._vectors.keys()

    def _candidates(self, codes: Sequence[int]) -> list[int]:
        """Rows in any of the buckets, one per table."""
        buckets = [self._buckets[bucket] for bucket in enumerate(codes) if bucket in self._buckets]
        return sorted(set().union(*buckets))

    def _hash(self, units: Tensor, planes: Tensor) -> list[list[int]]:
        """The codes [n][l] of vectors on the grid [n, d] by planes on the grid [l * h, d]. Exact, so a vector
        falls into the same buckets whatever is hashed with it."""
        tables, bits = self._planes.shape[:2]
        signs = (units @ planes.T >= 0).view(len(units), tables, bits)
        weights = 2 ** torch.arange(bits, device=units.device)
        codes: list[list[int]] = (signs * weights).sum(dim=-1).tolist()
        return codes

    def _insert(self, codes: list[int]) -> None:
        for bucket in enumerate(codes):
            self._buckets[bucket].append(len(self._codes))
        self._codes.append(codes)

    def _fill(self, rows: Sequence[list[int]] = ()) -> None:
        """Make the buckets anew from the codes of all rows."""
        self._codes = []
        self._buckets: dict[tuple[int, int], deque[int]] = defaultdict(lambda: deque(maxlen=self._bucket_size))
        for codes in rows:
            self._insert(codes)

    def _current_planes(self) -> Tensor:
        """The hyperplanes on the grid [l * h, d]; if they have changed, all stored keys are hashed again."""
        cache = self._fresh.values()
        if not cache:
            cache["planes"] = on_grid(self._planes.flatten(0, 1))
            self._fill(self._hash(self._vectors.units()[: len(self._codes)], cache["planes"]))
        return cache["planes"]
