"""Ways through a map that is known in part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cbrcore.interfaces import Places


class Way(NamedTuple):
    """How far away a room is, in moves, and the command that begins the way; "" for the room where one is."""

    moves: int
    first: str = ""


def ways(places: Places) -> dict[str, Way]:
    """Room -> the shortest way there through rooms that were seen; of equal ways the alphabetically first."""
    found = {places.here: Way(0)}
    for room, way in _growing(found):
        for command, there in sorted(places.exits.get(room, {}).items()):
            if there is not None and there not in found:
                found[there] = Way(way.moves + 1, way.first or command)
    return found


def unseen_exits(places: Places, known: dict[str, Way]) -> list[Way]:
    """The ways through exits behind which nobody has been, those to the exit included; the nearest first."""
    through = [
        Way(known[room].moves + 1, known[room].first or command)
        for room, exits in places.exits.items()
        if room in known
        for command, there in exits.items()
        if there is None
    ]
    return sorted(through)


def room_of(thing: str, places: Places) -> str | None:
    """The room of a thing that is somewhere in or on something; None where that is unknown."""
    seen = {thing}
    while thing in places.where and places.where[thing] not in seen:
        thing = places.where[thing]
        seen.add(thing)
    if thing == places.player:
        return places.here
    return thing if thing in places.exits or thing == places.here else None


def _growing(found: dict[str, Way]) -> Iterator[tuple[str, Way]]:
    """All entries of a dictionary that grows meanwhile, in the order in which they were added."""
    done = 0
    while done < len(found):
        yield list(found.items())[done]
        done += 1
