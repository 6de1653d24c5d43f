"""Tables from which rows leave one at a time, without being copied each time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

SPARE = 64
"""So many rows may have left a table, and an eighth of those that are still there, until it is made anew."""


@runtime_checkable
class RemovesRows(Protocol):
    """An optional ability of a `KeyIndex`: what a memory does in each step costs the same however many keys there
    are. Other indexes are asked for all `keys`, and to `keep` all rows but one."""

    def key(self, row: int) -> Tensor:
        """[...]: a copy of one key."""

    def remove(self, row: int) -> None:
        """Forget one key; those behind it move up by one row."""


class Places:
    """Row number -> where the row lies in a table. What has left lies there until `crowded`.

    Attributes:
        stored: rows of the table, those that have left among them.
    """

    def __init__(self) -> None:
        self.stored = 0
        self._places = array("i")  # ascending

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"Places({len(self)} of {self.stored} rows)"

    def __getitem__(self, row: int) -> int:
        return self._places[row]

    def add(self, count: int) -> None:
        """So many rows were appended to the table."""
        self._places.extend(range(self.stored, self.stored + count))
        self.stored += count

    def remove(self, row: int) -> int:
        """A row has left; the place where it lies."""
        return self._places.pop(row)

    def reset(self, count: int) -> None:
        """The table was made anew and holds so many rows."""
        self.stored, self._places = count, array("i", range(count))

    def of(self, rows: Sequence[int]) -> list[int]:
        """The places of several rows."""
        return [self._places[row] for row in rows]

    def rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n]: the row that lies in each place, -1 where it has left."""
        if len(self) == self.stored:
            return places
        known = np.frombuffer(self._places, dtype=np.intc)
        rows = np.searchsorted(known, places.astype(np.intc))
        there = rows < len(known)
        there[there] = known[rows[there]] == places[there]
        return np.where(there, rows, -1)

    def all(self) -> slice | np.ndarray:
        """The places of all rows, to index the table with: a slice where nothing left in between."""
        if not len(self):
            return slice(0, 0)
        first, last = self._places[0], self._places[-1]
        return slice(first, last + 1) if last - first < len(self) else np.array(self._places)

    @property
    def crowded(self) -> bool:
        """Whether so many rows have left that the table should be made anew."""
        return self.stored - len(self) > SPARE + len(self) // 8
