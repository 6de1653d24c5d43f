"""Revise: a case's solution is changed before it is replayed. What comes of it is retained as any other play
is."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cbr_explorer.archive import ANYWHERE, Step
from cbr_explorer.memory import GameMemory

LONGEST_DETOUR = 30
"""Commands that are grafted at most, the way back included."""
SHORTEN, GRAFT = 0, 1


@dataclass
class Plan:
    """What is replayed.

    Attributes:
        case: its number.
        steps: of the solution, revised or not.
        at: the next one.
        how: what was done with the solution, in words; "" for nothing.
    """

    case: int
    steps: list[Step]
    at: int = 0
    how: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing is left to replay."""
        return self.at >= len(self.steps)


Revise = Callable[[GameMemory, int, Sequence[Step], random.Random], Plan | None]


def shorten(memory: GameMemory, number: int, steps: Sequence[Step], rng: random.Random) -> Plan | None:
    """Leave out the longest loop that was not left out of this case yet: commands that lead back to the same
    room and earn nothing. None where there is no such loop."""
    rooms = [*(step.room for step in steps), memory.archive.cases[number].room]
    for first, after in sorted(_loops(steps, rooms), key=lambda loop: (loop[0] - loop[1], loop[0])):
        left = [*steps[:first], *steps[after:]]
        if _is_new(memory, SHORTEN, number, left):
            return Plan(number, left, how=f"without {after - first} of its commands")
    return None


def _loops(steps: Sequence[Step], rooms: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first step, the one after the last) of what leads back to the same room and earns nothing."""
    for first, room in enumerate(rooms[:-1]):
        for after in range(first + 1, len(rooms)):
            if steps[after - 1].earns:
                break
            if rooms[after] == room != ANYWHERE:
                yield first, after


def graft(memory: GameMemory, number: int, steps: Sequence[Step], rng: random.Random) -> Plan | None:
    """Put the detour to a reward in that this case lacks: from a room where both pass, to the reward as the
    other case got it, and back by the map. None where there is no such reward that was not tried with this case
    yet."""
    has = {(step.room, step.command) for step in steps if step.earns}
    open_ = [key for key in memory.rewards if key not in has]
    rng.shuffle(open_)
    for room, command in open_:
        detour = memory.archive.steps(memory.rewards[room, command])
        if (joint := _joint(steps, detour)) is None:
            continue
        at, begin = joint
        back = memory.news.back(room, command, steps[at].room)
        added = [*detour[begin:], *(Step(way, ANYWHERE, ANYWHERE) for way in back or ())]
        if back is not None and len(added) <= LONGEST_DETOUR and _is_new(memory, GRAFT, number, added):
            told = f"with the detour to {memory.archive.commands.values[command]!r}"
            return Plan(number, [*steps[:at], *added, *steps[at:]], how=told)
    return None


def _joint(steps: Sequence[Step], detour: Sequence[Step]) -> tuple[int, int] | None:
    """(step of a case, step of another), the last ones in the same room: of the other as late as can be."""
    passed = {step.room: at for at, step in enumerate(steps) if step.room != ANYWHERE}
    meets = (begin for begin in range(len(detour) - 1, -1, -1) if detour[begin].room in passed)
    begin = next(meets, None)
    return None if begin is None else (passed[detour[begin].room], begin)


def _is_new(memory: GameMemory, kind: int, number: int, steps: Sequence[Step]) -> bool:
    """Whether a case was not revised in this way yet; the next time it was."""
    key = (kind, number, zlib.crc32(repr([step.command for step in steps]).encode()))
    new = key not in memory.counts.revised
    memory.counts.revised[key] = None
    return new


REVISIONS: Mapping[str, Revise] = {"shorten": shorten, "graft": graft}
"""An entry of the setting `revise` -> what it does."""
