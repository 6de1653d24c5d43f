"""What the texts of TextWorldExpress tell: commands as templates with entities, rooms as triples.

The engine gives texts alone. They follow few patterns, which stand here; what no pattern fits is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cbrcore import SLOT, Action, Places, Triple

PLAYER = "player"
DIRECTIONS = ("north", "east", "south", "west")
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}

# -- commands ----------------------------------------------------------------------------------------------------

WHOLE = ("eat meal", "inventory", "jump up and down", "look around", "prepare meal", "task")
"""Commands that name no entity."""
PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<before>(?:open|close) door to )(?P<first>\w+)",
        r"(?P<before>(?:put|cook) )(?P<first>.+)(?P<between> in )(?P<second>.+)",
        r"(?P<before>\w+ )(?P<first>.+)",
    )
)


def parse_command(text: str) -> Action:
    """``put blue cup in sink`` -> ``put {} in {}`` (blue cup, sink). Without entities the player is the seed."""
    found = next((match for pattern in PATTERNS if (match := pattern.fullmatch(text))), None)
    if found is None or text in WHOLE:
        return Action(text, text, (), (PLAYER,))
    parts = found.groupdict(default="")
    entities = [name for name in (parts["first"], parts.get("second", "")) if name]
    template = parts["before"] + SLOT + (parts["between"] + SLOT if parts.get("second") else "")
    return Action.from_template(template, entities)


# -- rooms -------------------------------------------------------------------------------------------------------

_ROOM = re.compile(r"You are in the (?P<room>[^.]+)\.")
_THING = re.compile(
    r"(?:In one part of the room you see|In another part of the room you see|There is also|You also see) "
    r"(?P<thing>(?:(?!, that | that is closed| that has )[^.])+)(?P<tail>[^.]*)\."
)
_TAIL = re.compile(r"(?:, that contains (?P<inside>.+))|(?: that has (?P<on>.+) on it)")
_OPEN_EXIT = re.compile(
    r"(?:Through an open (?P<door>[^,.]+), to|To) the (?P<way>\w+) you see the (?P<room>[^.]+)\."
)
_CLOSED_EXIT = re.compile(r"To the (?P<way>\w+) you see a closed (?P<door>[^.]+)\.")
_ARTICLE = re.compile(r"(?:an?|some|the) ", re.IGNORECASE)
_OPEN = re.compile(r"an? open ", re.IGNORECASE)


@dataclass(frozen=True)
class Room:
    """One look: the room, what is in it, its exits."""

    name: str
    facts: tuple[Triple, ...]


def read_room(look: str, names: Iterable[str]) -> Room | None:
    """What a description tells; None if it describes no room.

    Args:
        names: the entities of the admissible actions. A thing is called by the longest of them that ends what
            stands there: of ``a raw purple potato`` the ``purple potato`` is raw.
    """
    if (found := _ROOM.search(look)) is None:
        return None
    room, known = found["room"], sorted(names, key=len, reverse=True)
    facts = [*_things(look, room, known), *_exits(look, room)]
    return Room(room, tuple(facts))


def read_inventory(inventory: str, names: Iterable[str]) -> Iterator[Triple]:
    """(thing, "in", player) for each line below the first, and the states that are named with it."""
    known = sorted(names, key=len, reverse=True)
    for line in inventory.strip().splitlines()[1:]:
        if line.strip() and not line.strip().endswith("."):
            yield from _placed(line.strip(), "in", PLAYER, known)


def _things(look: str, room: str, known: Sequence[str]) -> Iterator[Triple]:
    for found in _THING.finditer(look):
        thing, tail = found["thing"], found["tail"]
        opened = _OPEN.match(thing)
        name, states = _name(thing[opened.end() :] if opened else thing, known)
        yield name, "at", room
        yield from ((name, "is", state) for state in states)
        if opened or tail == " that is closed":
            yield name, "is", "open" if opened else "closed"
        if holds := _TAIL.fullmatch(tail):
            relation = "in" if holds["inside"] else "on"
            for item in re.split(r",? and |, ", holds["inside"] or holds["on"]):
                yield from _placed(item, relation, name, known)


def _placed(text: str, relation: str, holder: str, known: Sequence[str]) -> Iterator[Triple]:
    name, states = _name(text, known)
    yield name, relation, holder
    yield from ((name, "is", state) for state in states)


def _name(text: str, known: Sequence[str]) -> tuple[str, list[str]]:
    """The name in ``a raw purple potato``, and the words before it that say in which state it is."""
    bare = _ARTICLE.sub("", text.strip(), count=1) if _ARTICLE.match(text.strip()) else text.strip()
    for name in known:  # the longest first
        if bare == name or bare.endswith(f" {name}"):
            return name, bare[: -len(name)].replace(",", " ").split()
    return bare, []


def _exits(look: str, room: str) -> Iterator[Triple]:
    """An exit is called by its direction, as in the commands."""
    for found in _OPEN_EXIT.finditer(look):
        yield found["way"].lower(), "exit of", room
        yield found["way"].lower(), "leads to", found["room"]
        if found["door"]:
            yield found["way"].lower(), "is", "open"
    for found in _CLOSED_EXIT.finditer(look):
        yield found["way"].lower(), "exit of", room
        yield found["way"].lower(), "is", "closed"


# -- an episode --------------------------------------------------------------------------------------------------


class Remembered:
    """What an episode has shown: each room as it was when it was last seen, and the way between rooms."""

    def __init__(self) -> None:
        self._rooms: dict[str, tuple[Triple, ...]] = {}
        self._map: dict[Triple, None] = {}

    def take_in(self, look: str, inventory: str, names: Iterable[str]) -> list[Triple]:
        """Everything that is known now, given what is seen.

        The exits of the room around the player are nodes (`north`); those of other rooms are remembered as
        (pantry, "east of", kitchen). What the player holds is nowhere else.
        """
        names = list(names)
        seen = read_room(look, names)
        held = list(read_inventory(inventory, names))
        if seen is None:
            return held
        in_hand = {thing for thing, relation, _ in held if relation == "in"}
        present = {thing for thing, relation, _ in seen.facts if relation in ("in", "on", "at")}
        self._learn(seen)
        others = (fact for name, facts in self._rooms.items() if name != seen.name for fact in facts)
        remembered = [fact for fact in others if fact[0] not in in_hand | present and fact[0] not in DIRECTIONS]
        return [(PLAYER, "at", seen.name), *seen.facts, *held, *remembered, *self._map]

    def _learn(self, seen: Room) -> None:
        self._rooms[seen.name] = seen.facts
        for way, relation, beyond in seen.facts:
            if relation == "leads to":
                self._map[(beyond, f"{way} of", seen.name)] = None
                self._map[(seen.name, f"{OPPOSITE[way]} of", beyond)] = None


def read_places(triples: Iterable[Triple]) -> Places:
    """The map that the triples of `Remembered` hold; a room is "" where none was described."""
    exits: dict[str, dict[str, str | None]] = {}
    where: dict[str, str] = {}
    holders: set[str] = set()
    facts = list(triples)
    for head, relation, tail in facts:
        if relation == "exit of":
            exits.setdefault(tail, {}).setdefault(f"move {head}", None)
        elif relation.removesuffix(" of") in DIRECTIONS:
            exits.setdefault(tail, {})[f"move {relation.removesuffix(' of')}"] = head
        elif relation in ("in", "on", "at"):
            where[head] = tail
            holders |= {tail} if relation != "at" and tail != PLAYER else set()
    here = where.pop(PLAYER, "")
    return Places(here, {here: {}, **exits}, where, PLAYER, frozenset(holders))
