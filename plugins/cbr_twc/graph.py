"""The state graph G_t [P §4.1]: the game's own facts, as far as the player knows them.

In the mode `evolve` a fact enters the graph when the player comes upon it: what stands and lies in the rooms that
were visited, what is on supporters and in open containers, what is carried (from the start: an object that the
player begins with would otherwise be missing until it is touched). What is out of sight stays as remembered.
Only the player changes anything in these games, so that nothing remembered ever becomes false.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cbr_twc.game import Game
from cbr_twc.remember import Remembered
from cbr_twc.world import PLAYER, World, in_sight
from cbrcore.types import StateGraph, Triple

UNKNOWN_ROOM = "exit"
"""Stands for what lies behind an exit that was not taken yet."""


class GraphView:
    """What the player knows in one game, and the graph of it."""

    def __init__(self, game: Game, mode: Literal["evolve", "full"]) -> None:
        self.game = game
        self.mode = mode
        self._rooms: frozenset[str] = frozenset()
        self._things: frozenset[str] = frozenset()
        self._graphs: Remembered[StateGraph] = Remembered(2_000)

    def __repr__(self) -> str:
        return f"GraphView({self.game.name!r}, {self.mode!r})"

    def restart(self) -> None:
        """Forget everything (mode `evolve`)."""
        everything = self.mode == "full"
        self._rooms = frozenset(self.game.rooms if everything else ())
        self._things = frozenset(self.game.things if everything else ())

    def graph(self, world: World) -> StateGraph:
        """The graph after the player has looked around."""
        self._rooms |= {world.room}
        if unseen := set(in_sight(world, self.game)) - self._things:
            self._things |= unseen
        key = (world.key, self._rooms, self._things)
        return self._graphs.get(key, lambda: StateGraph.of(self._triples(world)))

    def _triples(self, world: World) -> Iterator[Triple]:
        yield PLAYER, "at", world.room
        for room in self._rooms:
            for holder in self.game.furniture[room]:
                yield holder, "at", room
                if holder in self.game.containers:
                    yield _openness(holder, world)
            yield from self._ways(room, world)
        for thing in self._things:
            yield self._location(thing, world)

    def _ways(self, room: str, world: World) -> Iterator[Triple]:
        for direction, way in self.game.exits[room].items():
            beyond = way.room if way.room in self._rooms else UNKNOWN_ROOM
            yield beyond, f"{direction}_of", room
            if way.door is not None:
                yield _openness(way.door, world)

    def _location(self, thing: str, world: World) -> Triple:
        place = world.place[thing]
        if place in self.game.exits:
            return thing, "at", place
        inside = place == PLAYER or place in self.game.containers
        return thing, "in" if inside else "on", place


def _openness(name: str, world: World) -> Triple:
    return name, "is", "open" if name in world.open else "closed"
