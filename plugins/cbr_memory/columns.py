"""Cases in columns: a case costs its numbers, and is an object only while somebody holds it.

An object for each case, its origin and its numbers took more than twice as much. What many cases have in common
(an action, a game and seed, a situation) is kept once and has a number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, overload
from weakref import WeakValueDictionary

import numpy as np

from cbr_keys.numbered import Numbered
from cbr_keys.places import Places
from cbr_memory.files import FIELDS
from cbrcore.interfaces import Situation
from cbrcore.types import Case, Provenance

WHOLE = ("id", "rewarded", "reused", "reuse_rewarded", "last_step", "episode", "step")
SHARED = ("action", "origin", "situation")
"""What is kept once: (template, entities, text, seeds); (game, seed); and what a key was made of."""
ROW = np.dtype([*((name, "i8") for name in WHOLE), ("reward", "f8"), *((name, "i4") for name in SHARED)])


class HeldCase(Case):
    """A case of a memory, in somebody's hands: what is set here is written into its row, until it leaves.

    There is one object of a case at a time, so that two who hold it count together. Equal to a `Case` of the same
    values; a copy of it is a `Case`, which tells nobody.
    """

    __slots__ = ("__weakref__", "_write")
    _write: Callable[[HeldCase], None] | None

    def __init__(self, *values: Any, **named: Any) -> None:
        object.__setattr__(self, "_write", None)
        super().__init__(*values, **named)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if self._write is not None:
            self._write(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and _values_of(self) == _values_of(other)

    __hash__ = None  # type: ignore[assignment]  # as a Case

    def __reduce__(self) -> tuple[type[Case], tuple[Any, ...]]:
        return Case, _values_of(self)

    def written_by(self, write: Callable[[HeldCase], None] | None) -> HeldCase:
        """From now on `write` is told whatever is set; None: nobody is."""
        object.__setattr__(self, "_write", write)
        return self


class CaseColumns(Sequence[Case]):
    """Cases by row, the oldest first (so that their ids ascend).

    Attributes:
        told: is called with the id of a case that came or was written to.
    """

    def __init__(self, told: Callable[[int], None] | None = None) -> None:
        self.told = told
        self._rows = np.empty(0, ROW)
        self._places = Places()
        self._shared: dict[str, Numbered[Any]] = {name: Numbered() for name in SHARED}
        self._held: WeakValueDictionary[int, HeldCase] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"CaseColumns({len(self)} cases)"

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, CaseColumns | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __iter__(self) -> Iterator[Case]:
        return (self._case(row) for row in range(len(self)))

    @overload
    def __getitem__(self, row: int) -> Case: ...
    @overload
    def __getitem__(self, row: slice) -> list[Case]: ...
    def __getitem__(self, row: int | slice) -> Case | list[Case]:
        chosen = range(len(self))[row]
        return self._case(chosen) if isinstance(chosen, int) else [self._case(each) for each in chosen]

    # -- one case ------------------------------------------------------------------------------------------------

    def append(self, case: Case, situation: Situation) -> Case:
        """Take in a case whose id is higher than those that are here; the one that is here now."""
        if self._places.stored == len(self._rows):
            grown = np.empty(max(16, len(self._rows) + len(self._rows) // 8), ROW)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        self._rows[self._places.stored] = self._values(case, self._number("situation", situation))
        self._places.add(1)
        self._tell(case.id)
        return self._hold(_values_of(case))

    def remove(self, row: int) -> None:
        """A case leaves. Who holds it keeps it as it was."""
        self._let_go(self._id(row))
        self._places.remove(row)
        if self._places.crowded:
            self._rows = self._rows[self._places.all()].copy()
            self._places.reset(len(self._rows))

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, which ascend."""
        staying = {self._id(row) for row in rows}
        for number in [each for each in self._held if each not in staying]:
            self._let_go(number)
        self._rows = self._rows[self._places.of(rows)]
        self._places.reset(len(self._rows))

    def row(self, number: int) -> int:
        """Of the case with this id. KeyError: it is not here."""
        if not len(self):
            raise KeyError(number)
        row = number - self._id(0)  # where none between them has left
        if not (0 <= row < len(self) and self._id(row) == number):
            row = bisect_left(range(len(self)), number, key=self._id)
        if row == len(self) or self._id(row) != number:
            raise KeyError(number)
        return row

    def get(self, number: int) -> Case | None:
        """The case with this id, if it is here."""
        held = self._held.get(number)
        if held is not None:
            return held
        try:
            return self._case(self.row(number))
        except KeyError:
            return None

    def _case(self, row: int) -> Case:
        number = self._id(row)
        held = self._held.get(number)
        return self._hold(self._read(row)) if held is None else held

    def _id(self, row: int) -> int:
        return int(self._rows["id"][self._places[row]])

    def _read(self, row: int) -> tuple[Any, ...]:
        """The values of `FIELDS`."""
        number, *counters, episode, step, reward, action, origin, _ = self._rows[self._places[row]].item()
        rewarded, reused, reuse_rewarded, last_step = counters
        template, entities, text, seeds = self._shared["action"][action]
        game, seed = self._shared["origin"][origin]
        counts = (rewarded, reused, last_step, seeds, reuse_rewarded)
        return number, template, entities, text, Provenance(game, seed, episode, step, reward), *counts

    def _hold(self, values: tuple[Any, ...]) -> HeldCase:
        held = HeldCase(*values).written_by(self._write)
        self._held[held.id] = held
        return held

    def _let_go(self, number: int) -> None:
        held = self._held.pop(number, None)
        if held is not None:
            held.written_by(None)

    def _write(self, case: Case) -> None:
        place = self._places[self.row(case.id)]
        self._rows[place] = self._values(case, self._rows["situation"][place])
        self._tell(case.id)

    def _values(self, case: Case, situation: int) -> tuple[float, ...]:
        """A row of `ROW`."""
        came = case.provenance
        action = self._number("action", (case.template, case.entities, case.text, case.seeds))
        origin = self._number("origin", (came.game, came.seed))
        counters = (case.rewarded, case.reused, case.reuse_rewarded, case.last_step)
        return case.id, *counters, came.episode, came.step, came.reward, action, origin, situation

    def _number(self, name: str, value: Hashable) -> int:
        """Of what is kept once. What nobody refers to goes when there is too much of it."""
        if len(self._shared[name]) > 2 * len(self) + 64:
            numbers = self._rows[name][: self._places.stored]
            there, numbers[:] = np.unique(numbers, return_inverse=True)
            self._shared[name] = Numbered(self._shared[name][number] for number in there)
        return self._shared[name].number(value)

    def _tell(self, number: int) -> None:
        if self.told is not None:
            self.told(number)

    # -- several -------------------------------------------------------------------------------------------------

    def preferred(self, rows: Sequence[int]) -> list[Case]:
        """Of the cases in these rows the preferred one of each template, the most preferred one first."""
        if len(rows) == 1:
            return [self._case(rows[0])]
        found = self._rows[self._places.of(rows)]
        best: dict[str, int] = {}
        for at in np.lexsort((found["id"], found["last_step"], found["rewarded"]))[::-1].tolist():
            best.setdefault(self._shared["action"][found["action"][at]][0], rows[at])
        return [self._case(row) for row in best.values()]

    def with_template(self, template: str) -> np.ndarray:
        """[n] int64, ascending: the rows of cases with this template."""
        actions = [number for number, parts in enumerate(self._shared["action"].values) if parts[0] == template]
        return np.flatnonzero(np.isin(self._rows["action"][self._places.all()], actions))

    def ids(self) -> list[int]:
        """Of all cases, by row."""
        found: list[int] = self._rows["id"][self._places.all()].tolist()
        return found

    def situation(self, row: int) -> Situation:
        """What the key of this case was made of."""
        return self._shared["situation"][self._rows["situation"][self._places[row]]]


class SituationsById(Mapping[int, Situation]):
    """Case id -> what the key of the case was made of, beside its seeds. Equal ones are one object."""

    def __init__(self, cases: CaseColumns) -> None:
        self._cases = cases

    def __len__(self) -> int:
        return len(self._cases)

    def __repr__(self) -> str:
        return f"SituationsById({len(self)} cases)"

    def __iter__(self) -> Iterator[int]:
        return iter(self._cases.ids())

    def __getitem__(self, number: int) -> Situation:
        return self._cases.situation(self._cases.row(number))


def _values_of(case: Case) -> tuple[Any, ...]:
    """Of `FIELDS`."""
    return tuple(getattr(case, name) for name in FIELDS)


def preference(case: Case) -> tuple[int, int, int]:
    """Order among equally relevant cases: more often rewarded, then more recent."""
    return case.rewarded, case.last_step, case.id
