"""The state of a game, and TextWorld's rules for TWC: which commands are admissible, and what they change.

The rules are those of the games' own knowledge base (see `rules`), written out for the few kinds of things that
TWC has. TextWorld's general logic engine needs 2 to 3 ms per step for the same; a test compares both over random
plays of all 45 published games.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cbrcore.types import Action

if TYPE_CHECKING:
    from cbr_twc.game import Game

PLAYER = "player"

WorldKey = tuple[str, frozenset[str], tuple[str, ...]]
"""(the player's room, what is open, where each thing is): the facts, hashable."""


@dataclass
class World:
    """Where everything is.

    Attributes:
        room: where the player is.
        open: the open containers and doors.
        contents: holder, room or player -> the things there, the last one put there first. The game lists them
            in this order, so that its texts depend on more than the facts.
        place: thing -> holder, room or player; always in the order of `Game.things`.
    """

    room: str
    open: frozenset[str]
    contents: dict[str, list[str]]
    place: dict[str, str]

    @property
    def key(self) -> WorldKey:
        """Equal for equal facts."""
        return self.room, self.open, tuple(self.place.values())

    def copy(self) -> World:
        contents = {holder: list(things) for holder, things in self.contents.items()}
        return World(self.room, self.open, contents, dict(self.place))

    def move(self, thing: str, place: str) -> None:
        """Put a thing somewhere."""
        self.contents[self.place[thing]].remove(thing)
        self.contents[place].insert(0, thing)
        self.place[thing] = place


def apply(world: World, action: Action, game: Game) -> None:
    """Change the world as an admissible action does."""
    verb, _, rest = action.template.partition(" ")
    match verb:
        case "take":
            world.move(action.entities[0], PLAYER)
        case "drop":
            world.move(action.entities[0], world.room)
        case "put" | "insert":
            world.move(*action.entities)
        case "open":
            world.open |= {action.entities[0]}
        case "close":
            world.open -= {action.entities[0]}
        case "go":
            world.room = game.exits[world.room][rest].room


def admissible(world: World, game: Game) -> list[Action]:
    """A_t, sorted by text, without duplicates."""
    actions = [*_on_the_spot(world, game), *_with_holders(world, game)]
    return sorted(actions, key=lambda action: action.text)


def in_sight(world: World, game: Game) -> Iterator[str]:
    """The things that the player sees or holds."""
    yield from world.contents[PLAYER]
    yield from world.contents[world.room]
    for holder in game.furniture[world.room]:
        if holder not in game.containers or holder in world.open:
            yield from world.contents[holder]


def _on_the_spot(world: World, game: Game) -> Iterator[Action]:
    """Looking, going, doors, and what needs no holder."""
    yield game.action("look")
    for direction, way in game.exits[world.room].items():
        if way.door is None or way.door in world.open:
            yield game.action(f"go {direction}")
        if way.door is not None:
            yield game.action("close {}" if way.door in world.open else "open {}", way.door)
            if game.rules.examine_doors:
                yield game.action("examine {}", way.door)
    for thing in world.contents[world.room]:
        yield game.action("examine {}", thing)
        if _has_free_hand(world, game):
            yield game.action("take {}", thing)
    for thing in world.contents[PLAYER]:
        yield game.action("drop {}", thing)
        if game.rules.examine_held:
            yield game.action("examine {}", thing)


def _with_holders(world: World, game: Game) -> Iterator[Action]:
    """What is done to the room's containers and supporters, and with what is on or in them."""
    for holder in game.furniture[world.room]:
        yield game.action("examine {}", holder)
        put = "put {} on {}"
        if holder in game.containers:
            put = "insert {} into {}"
            yield game.action("close {}" if holder in world.open else "open {}", holder)
            if holder not in world.open:
                continue
        for thing in world.contents[holder]:
            yield game.action("examine {}", thing)
            if _has_free_hand(world, game):
                yield game.action("take {} from {}", thing, holder)
        for thing in world.contents[PLAYER]:
            yield game.action(put, thing, holder)


def _has_free_hand(world: World, game: Game) -> bool:
    return len(world.contents[PLAYER]) < game.capacity
