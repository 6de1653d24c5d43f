"""What is where, from the game's own object tree: the facts of the state graph `tree`. Runs in the worker.

The tree knows more than a player sees: what is in a closed box is in it, too. In sight is what the game lets the
player examine; Jericho tests that before every search for valid actions, and the graph uses the same test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cbr_jericho.engine import Engine
from cbr_jericho.naming import DIRECTION_OF, PLAYER, node_name, number_duplicates, room_title, which_node
from cbr_jericho.objects import ObjectTree
from cbrcore.types import Triple

NO_THINGS = frozenset(("all", *DIRECTION_OF))
"""Names that the search uses which are no things: Jericho's wildcard, and directions (some parsers take them for
objects)."""


@dataclass
class Facts:
    """What surrounds the player.

    Attributes:
        room: the node of the room, "" if it has no name.
        triples: who is in what, and what the player has.
        nodes: the search's name for a thing -> its node.
    """

    room: str
    triples: list[Triple] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)


class Surroundings:
    """The named objects of one story."""

    def __init__(self, engine: Engine) -> None:
        self._player = engine.player_obj_num
        raw = engine.object_names()
        self._spoken = ["", *(name.lower() for name in raw)]
        self._names = ["", *map(node_name, raw)]
        self._nodes = number_duplicates(self._names)
        self._words = {word.word for word in engine.get_dictionary()}
        self._letters = max(map(len, self._words), default=0)

    def __repr__(self) -> str:
        return f"Surroundings({sum(map(bool, self._names))} named objects)"

    def facts(self, tree: ObjectTree, look: str, inventory: str, aliases: Mapping[str, Sequence[str]]) -> Facts:
        """What surrounds the player.

        Args:
            look, inventory: the answers to these commands.
            aliases: the things in sight, as `search.Found` has them.
        """
        around = tree.ancestors(self._player)
        room = self._node(around[-1]) if around else ""
        facts = Facts(room or room_title(look))
        known = {alias for names in aliases.values() for alias in names}
        in_sight = self._place_things(tree, around, known, facts)
        self._place_other_names(aliases, in_sight, inventory, facts)
        return facts

    def _name(self, number: int) -> str:
        """What an object is called, maybe like others; "" if it has no name."""
        return self._names[number] if 0 < number < len(self._names) else ""

    def _node(self, number: int) -> str:
        """The node of an object, unlike any other; "" if it has no name."""
        return self._nodes[number] if 0 < number < len(self._nodes) else ""

    def _place_things(self, tree: ObjectTree, around: list[int], known: set[str], facts: Facts) -> dict[str, str]:
        """Add where the player and the objects of the tree are; returns name -> node of all that is in sight."""
        seats = [self._player, *around[:-1]]  # a bed, a boat: what the player is in, in the room
        inside = around[-1] if around else self._player
        things = [n for n in tree.descendants(inside) if n not in seats and self._seen(tree, n, known)]
        for number in (*seats, *things):
            facts.triples.extend(self._placed(tree, number, facts.room))
        nodes: dict[str, str] = {}
        for number in sorted({*things, *around}):
            if name := self._name(number):
                nodes.setdefault(name, self._node(number))
        return nodes

    def _seen(self, tree: ObjectTree, number: int, known: set[str]) -> bool:
        return bool(self._node(number)) and (tree.parent(number) == self._player or self._in_sight(number, known))

    def _placed(self, tree: ObjectTree, number: int, room: str) -> Iterator[Triple]:
        """Where an object is; what has no name of its own is passed over."""
        if number == self._player:
            name = PLAYER
        elif not (name := self._node(number)):
            return
        holder = tree.parent(number)
        if holder == self._player:
            yield PLAYER, "have", name
            return
        named = next(filter(None, map(self._node, [holder, *tree.holders(holder)])), room)
        if named:
            yield name, "in", named

    def _in_sight(self, number: int, known: set[str]) -> bool:
        """Whether the game answered to the object's name; where the parser does not know a word of it, to one of
        its other words."""
        name = self._spoken[number]
        words = name.split()
        if all(word[: self._letters] in self._words for word in words):
            return name in known
        return any(word in known for word in words)

    def _place_other_names(
        self, aliases: Mapping[str, Sequence[str]], in_sight: dict[str, str], inventory: str, facts: Facts
    ) -> None:
        """The search's names as nodes. What the tree does not name is carried if ``inventory`` tells of it, else
        in the room (some games have no names in their tree, and scenery is often outside it)."""
        carried = inventory.lower()
        for name, others in aliases.items():
            word = node_name(name) or name
            node = facts.nodes[name] = which_node(word, map(node_name, others), in_sight)
            if word in NO_THINGS or node in in_sight.values():
                continue
            if re.search(rf"\b{re.escape(word)}\b", carried):
                facts.triples.append((PLAYER, "have", node))
            elif facts.room:
                facts.triples.append((node, "in", facts.room))
