"""The game's object tree, read from its memory: where everything is, and what everything is called.

Layout of the table: Z-Machine Standards Document 1.1, section 12. Objects have numbers from 1; 0 is "nothing".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

TABLE_POINTER = 0x0A
"""Where the header says where the object table is."""

CONTAINER_OF_ROOMS = 25
"""Infocom keeps all its rooms in one nameless object. An object in nothing with more contents than this is such a
one and no room; in the benchmark's games they hold 74 to 110, and no room starts with more than 16."""


@dataclass(frozen=True)
class Layout:
    """Where a version of the Z-machine keeps its objects. Offsets and sizes in bytes."""

    start: int
    size: int
    attributes: int
    link: int
    count: int

    @classmethod
    def of(cls, memory: bytes, version: int) -> Layout:
        """Read the layout from a game's memory as it is at the start.

        The table has no length: it ends where the first object's properties begin.
        """
        attributes, link, defaults = (4, 1, 31) if version <= 3 else (6, 2, 63)
        start = _word(memory, TABLE_POINTER) + 2 * defaults
        size = attributes + 3 * link + 2
        end, count = len(memory), 0
        while start + (count + 1) * size <= end:
            properties = _word(memory, start + (count + 1) * size - 2)
            end = min(end, properties) if properties else end
            count += 1
        return cls(start, size, attributes, link, count)

    @property
    def end(self) -> int:
        return self.start + self.count * self.size

    def link_at(self, number: int, which: int) -> slice:
        """Where an object's link to its parent (0), sibling (1) or child (2) is."""
        at = self.start + (number - 1) * self.size + self.attributes + which * self.link
        return slice(at, at + self.link)


def _word(memory: bytes, address: int) -> int:
    return int.from_bytes(memory[address : address + 2], "big")


class ObjectTree:
    """The links between objects in one state of the memory."""

    def __init__(self, memory: bytes, layout: Layout) -> None:
        self.memory = memory
        self.layout = layout

    def __repr__(self) -> str:
        return f"ObjectTree({self.layout.count} objects)"

    def parent(self, number: int) -> int:
        return self._link(number, 0)

    def sibling(self, number: int) -> int:
        return self._link(number, 1)

    def child(self, number: int) -> int:
        return self._link(number, 2)

    def _link(self, number: int, which: int) -> int:
        """0 for a number that is no object's: damaged links end there."""
        if not 0 < number <= self.layout.count:
            return 0
        return int.from_bytes(self.memory[self.layout.link_at(number, which)], "big")

    def children(self, number: int) -> Iterator[int]:
        """The contents of an object, in the game's order. Ends even if the links form a circle."""
        current = self.child(number)
        for _ in range(self.layout.count):
            if current == 0:
                return
            yield current
            current = self.sibling(current)

    def descendants(self, number: int) -> Iterator[int]:
        """The contents, and what is in them, outermost first."""
        waiting, seen = list(self.children(number)), {number}
        for current in waiting:
            if current not in seen:
                seen.add(current)
                yield current
                waiting.extend(self.children(current))

    def holders(self, number: int) -> list[int]:
        """What an object is in, what that is in, and so on."""
        found: list[int] = []
        current = self.parent(number)
        while current and current not in found:
            found.append(current)
            current = self.parent(current)
        return found

    def ancestors(self, number: int) -> list[int]:
        """What an object is in, from the nearest to the room."""
        holders = self.holders(number)
        return holders[:-1] if holders and self._holds_rooms(holders[-1]) else holders

    def room(self, number: int) -> int:
        """The outermost of what an object is in, the object itself if it is in nothing."""
        return [number, *self.ancestors(number)][-1]

    def _holds_rooms(self, number: int) -> bool:
        return sum(1 for _ in islice(self.children(number), CONTAINER_OF_ROOMS + 1)) > CONTAINER_OF_ROOMS
