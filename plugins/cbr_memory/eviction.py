"""Which case leaves a full memory, without looking at all of them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from cbr_memory.columns import CaseColumns
from cbrcore.types import Case

RANKS: dict[str, Callable[[Case], float]] = {
    "least_used": lambda case: case.rewarded + case.reused,
    "least_successful": lambda case: (case.reuse_rewarded + 1) / (case.reused + 2),
}


class Eviction(Protocol):
    """An order in which cases leave."""

    def first(self, cases: CaseColumns) -> int:
        """Of all `cases` but the last, the new one (at least two, by age), the row of the one that leaves."""


def eviction(name: str) -> tuple[Eviction, CaseColumns]:
    """The order of this name ("oldest", or one of `RANKS`), and the cases, none yet, that it looks after."""
    if name == "oldest":
        return Oldest(), CaseColumns()
    lowest = Lowest(RANKS[name])
    return lowest, CaseColumns(told=lowest.touched.add)


class Oldest:
    """The case that was retained first."""

    def first(self, cases: CaseColumns) -> int:
        return 0


class Lowest:
    """The case of the lowest rank, the oldest among equals: a heap of (rank, id).

    An entry counts if its case is still there and has that rank. Counters change outside of the memory (a reuse is
    counted by the trainer), in either direction of a rank, so a case that came or was written to gets another
    entry before the heap is read: there is always one that counts, for each case.

    Attributes:
        touched: the ids of these cases.
    """

    def __init__(self, rank: Callable[[Case], float]) -> None:
        self._rank = rank
        self.touched: set[int] = set()
        self._heap: list[tuple[float, int]] = []

    def first(self, cases: CaseColumns) -> int:
        self._read_counters(cases)
        new, aside = cases[-1].id, []
        while self._heap[0][1] == new or not self._counts(cases, *self._heap[0]):
            entry = heappop(self._heap)
            aside += [entry] if entry[1] == new else []
        found = cases.row(self._heap[0][1])
        for entry in aside:
            heappush(self._heap, entry)
        return found

    def _counts(self, cases: CaseColumns, rank: float, number: int) -> bool:
        case = cases.get(number)
        return case is not None and self._rank(case) == rank

    def _read_counters(self, cases: CaseColumns) -> None:
        """An entry more for each case that was touched; if too many no longer count, all entries anew."""
        for number in self.touched:
            if (case := cases.get(number)) is not None:
                heappush(self._heap, (self._rank(case), number))
        self.touched.clear()
        if len(self._heap) > 2 * len(cases) + 64:
            self._heap = [(self._rank(case), case.id) for case in cases]
            heapify(self._heap)
