"""A map read from a state graph: where the player is, the ways that are known, and where everything is.

The graph does not tell an empty supporter from a thing on the floor, so that the game is asked which of the
graph's entities are furniture; of what is not in the graph nothing is told.
"""

from __future__ import annotations

from collections import defaultdict

from cbr_twc.game import DIRECTIONS
from cbr_twc.graph import UNKNOWN_ROOM
from cbr_twc.world import PLAYER
from cbrcore.interfaces import Places
from cbrcore.types import StateGraph

WAYS = {f"{direction}_of": f"go {direction}" for direction in DIRECTIONS}
"""Relation of the graph -> the command that goes there, also where a door is closed now."""
LOCATIONS = ("at", "in", "on")


def read_places(graph: StateGraph, furniture: frozenset[str]) -> Places:
    """The map that `graph` holds.

    Args:
        graph: of a TWC game, in either mode.
        furniture: the game's containers and supporters. Rooms are no holders: no command names one as a place.
    """
    exits: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
    where: dict[str, str] = {}
    for head, relation, tail in graph.triples:
        if relation in WAYS:
            exits[tail][WAYS[relation]] = None if head == UNKNOWN_ROOM else head
        elif relation in LOCATIONS:
            where[head] = tail
    here = where.pop(PLAYER)
    return Places(here, {here: {}, **exits}, where, PLAYER, furniture.intersection(where))
