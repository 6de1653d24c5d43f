"""Commonsense triples as arrays: what links a few concepts, and which concepts are near each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cbrcore.types import Triple

Ints = NDArray[np.int32]


class TripleBase:
    """A read-only set of triples. Distances are in the undirected graph, as in the public TPC.

    ConceptNet's part for one level of TWC has 160,000 triples: about 5 MB here.
    """

    def __init__(self, triples: Iterable[Triple]) -> None:
        heads, relations, tails = _columns(triples)
        self._names = list(dict.fromkeys([*heads, *tails]))
        self._row = {name: row for row, name in enumerate(self._names)}
        self._relations = list(dict.fromkeys(relations))
        head, tail = _numbers(heads, self._row), _numbers(tails, self._row)
        relation = _numbers(relations, {name: number for number, name in enumerate(self._relations)})
        self._out_first, (self._out_tail, self._out_relation) = _by_row(head, len(self._names), tail, relation)
        both = np.concatenate([head, tail]), np.concatenate([tail, head])
        self._first, (self._neighbour,) = _by_row(both[0], len(self._names), both[1])
        self.around = cache(self._around)
        self.near = cache(self._near)

    def __len__(self) -> int:
        """Number of triples; a repeated one counts again."""
        return len(self._out_tail)

    def __contains__(self, concept: object) -> bool:
        return concept in self._row

    def __repr__(self) -> str:
        return f"TripleBase({len(self._names)} concepts, {len(self)} triples)"

    def between(self, concepts: Iterable[str]) -> list[Triple]:
        """The triples whose head and tail are both among `concepts`, without self-loops."""
        rows = sorted({self._row[concept] for concept in concepts})
        wanted = np.zeros(len(self._names), dtype=bool)
        wanted[rows] = True
        return [triple for row in rows for triple in self._to(row, wanted)]

    def _to(self, row: int, wanted: NDArray[np.bool_]) -> list[Triple]:
        own = slice(self._out_first[row], self._out_first[row + 1])
        tails = self._out_tail[own]
        chosen = wanted[tails] & (tails != row)
        pairs = zip(self._out_relation[own][chosen].tolist(), tails[chosen].tolist(), strict=True)
        return [(self._names[row], self._relations[relation], self._names[tail]) for relation, tail in pairs]

    def _around(self, concept: str) -> frozenset[str]:
        """The concepts one step away from `concept`, itself excluded."""
        row = self._row[concept]
        neighbours: list[int] = self._neighbour[self._first[row] : self._first[row + 1]].tolist()
        return frozenset(self._names[neighbour] for neighbour in neighbours if neighbour != row)

    def _near(self, one: str, other: str) -> bool:
        """Whether two different concepts are one or two steps apart."""
        here, there = self.around(one), self.around(other)
        return one != other and (other in here or not here.isdisjoint(there))


def _columns(triples: Iterable[Triple]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    columns = tuple(zip(*triples, strict=True)) or ((), (), ())
    return columns[0], columns[1], columns[2]


def _numbers(names: Sequence[str], number: dict[str, int]) -> Ints:
    return np.fromiter(map(number.__getitem__, names), np.int32, len(names))


def _by_row(rows: Ints, count: int, *columns: Ints) -> tuple[NDArray[np.int64], list[Ints]]:
    """`columns` ordered by row; those of row r are [first[r] : first[r + 1]]."""
    order = np.argsort(rows, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64)
    return first, [column[order] for column in columns]
