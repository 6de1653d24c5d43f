"""Codes that agree in most places, found by hashing pieces of them: exact, and flat as the table grows.

Multi-index hashing (Norouzi, Punjani and Fleet, CVPR 2012), for codes of D numbers instead of bits: two codes
that differ in at most r places agree in at least one of r + 1 pieces. A table for each piece tells which codes
share it with a query: all that are near enough, and few others as long as codes are spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NEW = 2048
"""So many codes may wait, and are all looked at, until they are sorted in."""

Rows = NDArray[np.int64]


class Buckets:
    """The first rows of a table of codes, sorted by each of several pieces; those behind them are new.

    Takes 8 bytes a row and piece, and the code.

    Args:
        parts: D.
        differing: r, the most places in which a code may differ from a query; less than D.

    Attributes:
        codes: [rows, D], those that are sorted in, row by row.
    """

    def __init__(self, parts: int, differing: int) -> None:
        self.differing = differing
        self.codes = np.zeros((0, parts), dtype=np.uint8)
        self._pieces = np.array_split(np.arange(parts), differing + 1)
        self._factors = np.random.default_rng(0).integers(2**64, size=parts, dtype=np.uint64) | np.uint64(1)
        self._marks = [np.zeros(0, np.uint32) for _ in self._pieces]  # ascending
        self._places = [np.zeros(0, np.uint32) for _ in self._pieces]  # the row of each mark

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"Buckets({len(self)} rows by {len(self._pieces)} pieces)"

    def take_in(self, codes: NDArray[np.uint8]) -> None:
        """Sort in the next rows [n, D]."""
        for piece, marks in enumerate(self._marks_of(codes)):
            order = np.argsort(marks, kind="stable")
            where = np.searchsorted(self._marks[piece], marks[order], side="right")
            self._marks[piece] = np.insert(self._marks[piece], where, marks[order])
            self._places[piece] = np.insert(self._places[piece], where, (len(self) + order).astype(np.uint32))
        self.codes = np.concatenate([self.codes, codes])

    def near(self, code: NDArray[np.uint8], most: int) -> Rows | None:
        """The sorted rows that may be near a code [D]: all that are, and others, some of them more than once.
        None if these are more than `most`."""
        found = []
        for piece, mark in enumerate(self._marks_of(code[None])):
            first = np.searchsorted(self._marks[piece], mark[0], side="left")
            last = np.searchsorted(self._marks[piece], mark[0], side="right")
            most -= int(last - first)
            if most < 0:
                return None
            found.append(self._places[piece][first:last])
        return np.concatenate(found).astype(np.int64)

    def _marks_of(self, codes: NDArray[np.uint8]) -> list[NDArray[np.uint32]]:
        """Of codes [n, D], for each piece, [n]: equal for equal pieces, and hardly ever for others."""
        products = codes.astype(np.uint64) * self._factors  # [n, D]
        return [(products[:, piece].sum(axis=1) >> np.uint64(32)).astype(np.uint32) for piece in self._pieces]
