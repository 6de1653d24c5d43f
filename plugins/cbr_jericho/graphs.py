"""State graphs [P §4.1] of Jericho's games, in two kinds that differ in where their facts come from.

`tree`: from the game's object tree, exact. `text`: from the texts alone, by rules over a dependency parse. To both
belong, for as long as the episode lasts, the ways that the player has gone: (room, direction, room); and the exits
that are open now: (room, "exit", direction).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from cbr_isolate.protocol import Message
from cbr_jericho.naming import PLAYER, direction_of, node_name, room_title, which_node
from cbr_jericho.texts import TextTriples
from cbrcore.types import Action, StateGraph, Triple


class RoomScene(NamedTuple):
    """What a graph is made of at one step.

    Attributes:
        room: its node, "" where it has no name.
        triples: the facts.
        nodes: the search's name for a thing -> its node.
    """

    room: str
    triples: tuple[Triple, ...]
    nodes: Mapping[str, str]

    @property
    def place(self) -> tuple[str, ...]:
        """The seeds of actions without entities: the player, and the room if it has a name."""
        return (PLAYER, self.room) if self.room else (PLAYER,)

    def seeds(self, entities: Iterable[str]) -> tuple[str, ...]:
        """The nodes that an action's entities mean."""
        meant = (self.nodes.get(entity) or node_name(entity) or entity for entity in entities)
        return tuple(dict.fromkeys(meant)) or self.place


class SceneReader(Protocol):
    """Makes a scene of a worker's reply.

    Attributes:
        counts: `triples_dropped`, if any were.
    """

    @property
    def counts(self) -> Counter[str]: ...

    def read(self, reply: Message) -> RoomScene: ...


class TreeScenes:
    """Scenes from the object tree; the worker has read it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __repr__(self) -> str:
        return "TreeScenes()"

    def read(self, reply: Message) -> RoomScene:
        triples = tuple((head, relation, tail) for head, relation, tail in reply["triples"])
        return RoomScene(reply["room"], triples, reply["nodes"])


class TextScenes:
    """Scenes from the texts: the room's title, and the triples of description, inventory and answer."""

    def __init__(self) -> None:
        self.texts = TextTriples()

    def __repr__(self) -> str:
        return f"TextScenes({self.texts!r})"

    @property
    def counts(self) -> Counter[str]:
        return Counter(triples_dropped=self.texts.dropped)

    def read(self, reply: Message) -> RoomScene:
        room = room_title(reply["look"])
        triples = self.texts.of(reply["look"], reply["inventory"], reply["feedback"], room)
        things = {name for head, relation, tail in triples for name in (head, tail if relation != "is" else head)}
        names = {name: name for name in things - {PLAYER}}
        nodes = {
            word: which_node(node_name(word) or word, map(node_name, others), names)
            for word, others in reply["aliases"].items()
        }
        return RoomScene(room, triples, nodes)


class Map:
    """The ways gone in this episode."""

    def __init__(self) -> None:
        self._ways: set[Triple] = set()
        self._room = ""

    def __repr__(self) -> str:
        return f"Map({len(self._ways)} ways)"

    def enter(self, room: str, command: str | None) -> None:
        """The player is in `room` now, after `command`. A way is noted if the command is a direction."""
        way = direction_of(command) if command else None
        if way and room and self._room and room != self._room:
            self._ways.add((self._room, way, room))
        self._room = room or self._room

    def graph(self, scene: RoomScene, actions: Sequence[Action], exits: Sequence[Action]) -> StateGraph:
        """The state graph: facts, ways gone, exits.

        Args:
            actions: every seed of them is a node.
            exits: those whose directions are known to be open.
        """
        open_ways = {way for action in exits if (way := direction_of(action.text))} if scene.room else set()
        triples = {*scene.triples, *self._ways, *((scene.room, "exit", way) for way in open_ways)}
        return StateGraph.of(triples, {*scene.place, *(node for action in actions for node in action.seeds)})
