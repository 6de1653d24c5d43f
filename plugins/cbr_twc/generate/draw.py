"""Draw one game: which rooms, what stands in them, and what lies in the wrong place."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from cbr_twc.generate.house import House, Thing

HOLDERS_PER_ROOM = (4, 8)
FLOOR_SHARE = 1 / 3
"""How often a misplaced thing lies on a floor; otherwise it is on or in a wrong holder."""

FAMILIAR_SHARE = 1 / 2
"""How often a thing of an IN or OUT game is chosen among those that belong to a holder known from training."""

DRAWS_PER_ROOM = 100
DIRECTIONS = ("north", "east", "south", "west")


@dataclass(frozen=True)
class Shape:
    """The size of a game; `carried` of its `objects` start in the inventory."""

    rooms: int
    objects: int
    carried: int


@dataclass(frozen=True)
class Furniture:
    """A holder and the room where it stands in this game; `kind` is "s" (supporter) or "c" (container)."""

    name: str
    kind: str
    room: str


@dataclass(frozen=True)
class Misplaced:
    """An object, where it starts (a room's floor, a holder, or None: the inventory), and where it belongs."""

    name: str
    base: str
    start: str | None
    goals: tuple[str, ...]


@dataclass(frozen=True)
class GamePlan:
    """One game. With two rooms, the second lies to the `direction` of the first, behind `door` if there is one."""

    rooms: tuple[str, ...]
    player: str
    direction: str | None
    door: str | None
    holders: tuple[Furniture, ...]
    objects: tuple[Misplaced, ...]

    @property
    def digest(self) -> str:
        """Eight hex digits that tell this plan from others."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:8]

    @property
    def take(self) -> int:
        """How many objects have to be picked up; the others start in the inventory."""
        return sum(thing.start is not None for thing in self.objects)

    @property
    def goal_locations(self) -> dict[str, list[str]]:
        """Object -> the holders in this game where it belongs."""
        return {thing.name: list(thing.goals) for thing in self.objects}


class Drawer:
    """Draws games for one split.

    Args:
        house: what there is.
        pool: the base objects that this split may use.
        familiar: holders that were goals in training; empty for the training split itself.
    """

    def __init__(self, house: House, pool: frozenset[str], familiar: frozenset[str]) -> None:
        self.house = house
        self.pool = pool
        self.familiar = familiar

    def __repr__(self) -> str:
        return f"Drawer({len(self.pool)} base objects, {len(self.familiar)} familiar holders)"

    def draws(self, shape: Shape, order: Sequence[str], rng: random.Random) -> Iterator[GamePlan]:
        """Games of this shape; later rooms of `order` serve where earlier ones have too few objects."""
        for room in order:
            for _ in range(DRAWS_PER_ROOM):
                rooms, door = self._rooms(room, shape.rooms, rng)
                things = self._things(rooms, shape.objects, rng)
                if len(rooms) == shape.rooms and len(things) == shape.objects:
                    yield self._arrange(rooms, door, things, shape.carried, rng)

    def _rooms(self, room: str, count: int, rng: random.Random) -> tuple[tuple[str, ...], str | None]:
        """`room`, with a neighbour where two rooms are asked for and it has one; and the door between them."""
        ways = [way for way in self.house.connections if room in way.rooms]
        if count == 1 or not ways:
            return (room,), None
        way = rng.choice(ways)
        return way.rooms, way.door

    def _things(self, rooms: Sequence[str], count: int, rng: random.Random) -> list[Thing]:
        """Up to `count` things of different bases that belong in these rooms."""
        here = {holder.name for room in rooms for holder in self.house.holders_in(room)}
        left = [t for t in self.house.things if t.base in self.pool and here.intersection(t.places)]
        chosen: list[Thing] = []
        while left and len(chosen) < count:
            known = [t for t in left if here.intersection(self.familiar, t.places)]
            choice = known if known and rng.random() < FAMILIAR_SHARE else left
            base = rng.choice(list(dict.fromkeys(t.base for t in choice)))
            chosen.append(rng.choice([t for t in choice if t.base == base]))
            left = [t for t in left if t.base != base]
        return chosen

    def _arrange(
        self, rooms: tuple[str, ...], door: str | None, things: list[Thing], carried: int, rng: random.Random
    ) -> GamePlan:
        """Furnish the rooms and put every thing where it does not belong."""
        standing = self._furnish(rooms, things, rng)
        objects = []
        for number, thing in enumerate(things):
            goals = tuple(place for place in thing.places if place in standing)
            start = None if number < carried else _wrong_spot(rooms, standing, goals, rng)
            objects.append(Misplaced(thing.name, thing.base, start, goals))
        holders = [self.house.holders[name] for name in self.house.holders if name in standing]
        return GamePlan(
            rooms=rooms,
            player=rng.choice(rooms),
            direction=rng.choice(DIRECTIONS) if len(rooms) == 2 else None,
            door=door,
            holders=tuple(Furniture(holder.name, holder.kind, standing[holder.name]) for holder in holders),
            objects=tuple(objects),
        )

    def _furnish(self, rooms: Sequence[str], things: list[Thing], rng: random.Random) -> dict[str, str]:
        """Holder -> room: one right holder for each thing, then others, so that the right one must be known."""
        standing: dict[str, str] = {}
        for thing in things:
            spots = {p: [r for r in rooms if r in self.house.holders[p].rooms] for p in thing.places}
            fitting = [place for place in thing.places if spots[place]]
            if not standing.keys() & set(fitting):
                place = rng.choice([p for p in fitting if p in self.familiar] or fitting)
                standing[place] = rng.choice(spots[place])
        for room in rooms:
            others = [holder.name for holder in self.house.holders_in(room) if holder.name not in standing]
            missing = rng.randint(*HOLDERS_PER_ROOM) - list(standing.values()).count(room)
            for name in rng.sample(others, max(0, min(missing, len(others)))):
                standing[name] = room
        return standing


def _wrong_spot(rooms: Sequence[str], standing: dict[str, str], goals: Sequence[str], rng: random.Random) -> str:
    """A floor, or a holder where the thing does not belong."""
    wrong = [holder for holder in standing if holder not in goals]
    return rng.choice(rooms) if not wrong or rng.random() < FLOOR_SHARE else rng.choice(wrong)
