"""A map read from an observation: where the player is, the ways that the episode has shown, and where things are.

All of it stands in the state graph, but for how the game spells a way ("west", "go west"): that is read from the
valid actions. The graph tells the open exits of the present room alone, and of all rooms the ways that were gone.
"""

from __future__ import annotations

import re
from collections import defaultdict

from cbr_jericho.naming import DIRECTION_OF, PLAYER, direction_of
from cbrcore.interfaces import Places
from cbrcore.types import Action, Observation

DIRECTIONS = frozenset(DIRECTION_OF.values())
PUTS = re.compile(r"(put|insert|place|drop|hang|lay|lower|stuff) \{\} (in|into|on|onto|inside|under|down) \{\}")
"""Templates whose second thing is one that things are put into or onto."""


def read_places(seen: Observation) -> Places:
    """The map that an observation holds.

    Nothing tells empty containers from other things but that something can be put there now: `holders` are what
    holds something, and what a valid action puts something into.
    """
    spelling = spelled(seen.admissible)
    exits: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
    where: dict[str, str] = {}
    for head, relation, tail in seen.graph.triples:
        if relation == "have" and head == PLAYER:
            where[tail] = PLAYER
        elif relation == "in":
            where[head] = tail
        elif relation in DIRECTIONS and not (relation == "exit" and tail in DIRECTIONS):  # that is an open exit
            exits[head][spelling.get(relation, relation)] = tail
    here = room_of(PLAYER, where)
    for action in seen.admissible:
        if direction_of(action.text):
            exits[here].setdefault(action.text, None)
    seat = where.pop(PLAYER, here)  # the room, or what the player sits in
    holders = {place for place in {*where.values(), seat} if place in where}
    holders.update(action.seeds[-1] for action in seen.admissible if PUTS.fullmatch(action.template))
    return Places(here, {here: {}, **exits}, where, PLAYER, frozenset(holders & where.keys()))


def spelled(actions: tuple[Action, ...]) -> dict[str, str]:
    """Direction -> the command that goes there, as these actions have it; for the others in the same manner."""
    ways = {way: action.text for action in actions if (way := direction_of(action.text))}
    manner = next((f"{text.split()[0]} " for text in ways.values() if " " in text), "")
    return {direction: manner + direction for direction in DIRECTIONS} | ways


def room_of(thing: str, where: dict[str, str]) -> str:
    """The outermost of what a thing is in; "" where that is unknown."""
    seen = {thing}
    while thing in where and where[thing] not in seen:
        thing = where[thing]
        seen.add(thing)
    return "" if thing == PLAYER else thing
