"""The house that games are drawn from: rooms, holders, and where each thing belongs (`house.yaml`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbrcore.errors import GameError, suggest

HOUSE = Path(__file__).with_name("house.yaml")

NAME = re.compile(r"[a-z]+( [a-z]+)*")
WORD_LENGTH = 9
"""The Z-machine's dictionary keeps nine letters of a word."""

RESERVED = re.compile(r"\b(a|an|the|of|on|off|in|into|out|from|to|with|and|then|it|all|but|except)\b")
"""Words that a player's command, or the Inform source, would read as grammar."""


@dataclass(frozen=True)
class Holder:
    """A piece of furniture. Its `kind` is TextWorld's type: "s" (supporter) or "c" (container)."""

    name: str
    kind: str
    rooms: tuple[str, ...]


@dataclass(frozen=True)
class Thing:
    """One object in one state; `base` is the entity that a split keeps together ("dirty hoodie" -> "hoodie")."""

    name: str
    base: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Connection:
    """Two rooms that can be neighbours; `door` is None for an open exit."""

    rooms: tuple[str, str]
    door: str | None


@dataclass(frozen=True)
class House:
    """All that games are drawn from, in the order of the file."""

    rooms: tuple[str, ...]
    connections: tuple[Connection, ...]
    holders: Mapping[str, Holder]
    things: tuple[Thing, ...]

    @property
    def bases(self) -> tuple[str, ...]:
        """The base objects, each once."""
        return tuple(dict.fromkeys(thing.base for thing in self.things))

    def holders_in(self, room: str) -> tuple[Holder, ...]:
        """The holders that can stand in `room`."""
        return tuple(holder for holder in self.holders.values() if room in holder.rooms)


def load_house(path: Path = HOUSE) -> House:
    """Read and check a house.

    Raises:
        GameError: the file cannot be read, or breaks one of the rules at its head; all faults are listed.
    """
    import yaml

    try:
        house = _parse(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise GameError(
            f"{path}: not a house: {error}", hint="The rules are at the head of house.yaml."
        ) from error
    faults = [*_broken_links(house), *_bad_names(house), *_ambiguous_names(house)]
    if faults:
        lines = "\n".join(f"{path}: {fault}" for fault in faults)
        raise GameError(lines, hint="The rules are at the head of house.yaml.")
    return house


def _parse(data: Mapping[str, Any]) -> House:
    holders = [
        Holder(name, kind, tuple(rooms))
        for kind, section in (("s", "supporters"), ("c", "containers"))
        for name, rooms in data[section].items()
    ]
    things = [
        Thing(f"{state} {base}".strip(), base, tuple(places))
        for group in data["things"]
        for base in group["names"]
        for state, places in group["states"].items()
    ]
    connections = [
        Connection((first, second), door[0] if door else None) for first, second, *door in data["connections"]
    ]
    return House(tuple(data["rooms"]), tuple(connections), {h.name: h for h in holders}, tuple(things))


def _broken_links(house: House) -> Iterator[str]:
    """Rooms and holders that are named but not there, and things without a place."""
    used_rooms = [room for holder in house.holders.values() for room in holder.rooms]
    used_rooms += [room for connection in house.connections for room in connection.rooms]
    for room in dict.fromkeys(used_rooms):
        if room not in house.rooms:
            yield f"there is no room {room!r}. {suggest(room, house.rooms)}"
    for thing in house.things:
        if not 1 <= len(set(thing.places)) == len(thing.places) <= 3:
            yield f"{thing.name!r} needs 1 to 3 different holders"
        for place in thing.places:
            if place not in house.holders:
                yield f"{thing.name!r}: there is no holder {place!r}. {suggest(place, house.holders)}"


def _entities(house: House) -> list[tuple[str, str]]:
    """(name, identity) of everything that a command can name; the states of a base share its identity."""
    doors = [connection.door for connection in house.connections if connection.door]
    fixed = [(name, f"fixed:{name}") for name in (*house.holders, *dict.fromkeys(doors))]
    return fixed + [(thing.name, thing.base) for thing in house.things]


def _bad_names(house: House) -> Iterator[str]:
    for name, uses in Counter([*house.rooms, *(name for name, _ in _entities(house))]).items():
        if not NAME.fullmatch(name) or RESERVED.search(name):
            yield f"the name {name!r} cannot be used in a game"
        if uses > 1:
            yield f"the name {name!r} is used twice"


def _ambiguous_names(house: House) -> Iterator[str]:
    """Names whose words all occur in another's: Inform would ask which of the two the player means."""
    words = [({word[:WORD_LENGTH] for word in name.split()}, name, who) for name, who in _entities(house)]
    for few, name, who in words:
        for many, other, owner in words:
            if who != owner and few <= many:
                yield f"{name!r} can be mistaken for {other!r}"
