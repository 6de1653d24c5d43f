"""How much a game can read: the sizes of its buffers, from the instruction at which it waits for a line.

The interpreter does not look at them: a longer line overwrites what lies behind the buffers. In detective, whose
buffer has 120 bytes, that is where its words go, and 121 bytes of many words halt or kill the interpreter.
[Z-Machine Standards Document 1.1, sections 4 and 15]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

READ_LINE = 228
"""The instruction `read`."""
GLOBALS_POINTER = 0x0C
"""Where the header says where the global variables are."""
FIRST_GLOBAL = 16
LARGE, SMALL, VARIABLE, NONE = range(4)
"""Types of operands; four to a byte, the first in the highest bits."""


class Memory:
    """The memory of a game: what changes, then the rest of the story."""

    def __init__(self, ram: bytes, story: bytes) -> None:
        self._ram, self._story = ram, story

    def byte(self, address: int) -> int:
        """0 beyond the end."""
        part = self._ram if address < len(self._ram) else self._story
        return part[address] if address < len(part) else 0

    def word(self, address: int) -> int:
        return self.byte(address) << 8 | self.byte(address + 1)


class Place(NamedTuple):
    """Where a game stands: after the first byte of an instruction (`pc`), with the interpreter's stack of words,
    its top `sp`, and the start `fp` of the local variables, which lie below it."""

    pc: int
    stack: memoryview
    sp: int
    fp: int


def room_for_line(memory: Memory, place: Place, version: int) -> tuple[int, int | None] | None:
    """(bytes, words) of the longest line that the game has room for; words None where they are not counted. None
    where it does not wait for a line."""
    if memory.byte(place.pc - 1) != READ_LINE:
        return None
    text, words = (*_operands(memory, place), 0, 0)[:2]
    most = memory.byte(text) if version >= 5 else memory.byte(text) - 1  # early ones end it with a zero
    return (most, memory.byte(words) or None if words else None) if most > 0 else None


def _operands(memory: Memory, place: Place) -> Iterator[int]:
    types, at = memory.byte(place.pc), place.pc + 1
    for shift in (6, 4, 2, 0):
        kind = types >> shift & 3
        if kind == NONE:
            return
        if kind == LARGE:
            yield memory.word(at)
        else:
            value = memory.byte(at)
            yield value if kind == SMALL else _variable(memory, place, value)
        at += 2 if kind == LARGE else 1


def _variable(memory: Memory, place: Place, number: int) -> int:
    """Number 0 is the top of the stack."""
    if number >= FIRST_GLOBAL:
        return memory.word(memory.word(GLOBALS_POINTER) + 2 * (number - FIRST_GLOBAL))
    at = place.fp - number if number else place.sp
    return place.stack[at] if 0 <= at < len(place.stack) else 0
