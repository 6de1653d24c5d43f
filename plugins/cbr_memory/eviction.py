"""Which case leaves a full memory, without looking at all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from cbrcore.types import Case

FIELDS = tuple(field.name for field in fields(Case))
COUNTERS = frozenset({"rewarded", "reused", "reuse_rewarded"})
RANKS: dict[str, Callable[[Case], float]] = {
    "least_used": lambda case: case.rewarded + case.reused,
    "least_successful": lambda case: (case.reuse_rewarded + 1) / (case.reused + 2),
}


class Eviction(Protocol):
    """An order in which cases leave."""

    def watch(self, case: Case) -> Case:
        """The case as the memory keeps it."""

    def forget(self, case: Case) -> None:
        """The case has left the memory."""

    def first(self, cases: Sequence[Case]) -> Case:
        """Of all `cases` but the last, the new one (at least two, by age), the one that leaves."""


def eviction(name: str) -> Eviction:
    """The order of this name ("oldest", or one of `RANKS`)."""
    return Oldest() if name == "oldest" else Lowest(RANKS[name])


class Oldest:
    """The case that was retained first."""

    def watch(self, case: Case) -> Case:
        return case

    def forget(self, case: Case) -> None:
        """Nothing was kept of it."""

    def first(self, cases: Sequence[Case]) -> Case:
        return cases[0]


class WatchedCase(Case):
    """A case that notes its number where the memory looks when a counter is set, by whomever. Equal to a `Case` of
    the same values; a copy of it tells nobody.

    The counters change outside of the memory (a reuse is counted by the trainer), in either direction of a rank.
    """

    __slots__ = ("_touched",)
    _touched: set[int]

    def __init__(self, *values: Any, **named: Any) -> None:
        self._touched = set()
        super().__init__(*values, **named)

    @classmethod
    def of(cls, case: Case, touched: set[int]) -> WatchedCase:
        """The same values; `touched` gets its number whenever a counter is set."""
        watched = cls(**{name: getattr(case, name) for name in FIELDS})
        watched._touched = touched
        return watched

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in COUNTERS:
            self._touched.add(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and all(getattr(self, name) == getattr(other, name) for name in FIELDS)

    __hash__ = None  # type: ignore[assignment]  # as a Case


class Lowest:
    """The case of the lowest rank, the oldest among equals: a heap of (rank, id).

    An entry counts if its case is still there and has that rank; a case whose counters were set gets another entry
    before the heap is read. So there is always one that counts, for each case.
    """

    def __init__(self, rank: Callable[[Case], float]) -> None:
        self._rank = rank
        self._cases: dict[int, Case] = {}
        self._touched: set[int] = set()
        self._heap: list[tuple[float, int]] = []

    def watch(self, case: Case) -> Case:
        watched = WatchedCase.of(case, self._touched)
        self._cases[case.id] = watched
        self._touched.add(case.id)
        return watched

    def forget(self, case: Case) -> None:
        del self._cases[case.id]

    def first(self, cases: Sequence[Case]) -> Case:
        self._read_counters()
        new, aside = cases[-1].id, []
        while self._heap[0][1] == new or not self._counts(*self._heap[0]):
            entry = heappop(self._heap)
            aside += [entry] if entry[1] == new else []
        found = self._cases[self._heap[0][1]]
        for entry in aside:
            heappush(self._heap, entry)
        return found

    def _counts(self, rank: float, number: int) -> bool:
        return number in self._cases and self._rank(self._cases[number]) == rank

    def _read_counters(self) -> None:
        """An entry more for each case that was touched; if too many no longer count, all entries anew."""
        for number in self._touched & self._cases.keys():
            heappush(self._heap, (self._rank(self._cases[number]), number))
        self._touched.clear()
        if len(self._heap) > 2 * len(self._cases) + 64:
            self._heap = [(self._rank(case), number) for number, case in self._cases.items()]
            heapify(self._heap)
