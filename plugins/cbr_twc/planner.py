"""Shortest solutions, from a game's facts and goals: the "optimal steps" that stand beside every TWC result.

A shortest solution takes every misplaced thing once and puts it once into one of its places; these steps are the
same in number whatever the order. Only walking can be saved. So in each room do all that can be done there, which
never hurts, and search breadth-first over the rooms for the shortest walk.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import NamedTuple

from cbr_twc.game import Game
from cbr_twc.reading import load_game
from cbr_twc.world import PLAYER
from cbrcore.errors import GameError


class _State(NamedTuple):
    room: str
    waiting: frozenset[str]
    """Things that were not touched yet."""
    held: frozenset[str]


def optimal_plan(path: Path) -> list[str]:
    """The commands of a shortest solution of the game that the .json at `path` describes.

    Raises:
        GameError: the file is no TWC game, or this planner cannot solve it.
    """
    return solve(load_game(path))


def solve(game: Game) -> list[str]:
    """The commands of a shortest solution.

    Raises:
        GameError: something is closed at the start, or a goal is out of reach.
    """
    _check_open(game)
    wanted = {goal.thing for goal in game.goals}
    held = frozenset(game.start.contents[PLAYER]) & wanted
    first, plan = _tidy(_State(game.start.room, frozenset(wanted - held), held), game)
    queue, seen = deque([(first, plan)]), {first}
    while queue:
        state, plan = queue.popleft()
        if not state.waiting and not state.held:
            return plan
        for direction, way in game.exits[state.room].items():
            after, actions = _tidy(state._replace(room=way.room), game)
            if after not in seen:
                seen.add(after)
                queue.append((after, [*plan, f"go {direction}", *actions]))
    raise GameError(f"{game.name} cannot be solved: no walk reaches every thing and its place")


def _check_open(game: Game) -> None:
    closed = sorted((game.containers | game.doors) - game.start.open)
    if closed:
        raise GameError(f"{game.name} starts with {closed[0]!r} closed; the planner knows open houses only")


def _tidy(state: _State, game: Game) -> tuple[_State, list[str]]:
    """Take everything that waits in this room, then put everything that belongs here."""
    here = game.furniture[state.room]
    plan, waiting, held = [], set(state.waiting), set(state.held)
    for thing in sorted(state.waiting):
        place = game.start.place[thing]
        if place == state.room or place in here:
            plan.append(f"take {thing}" if place == state.room else f"take {thing} from {place}")
            waiting.remove(thing)
            held.add(thing)
    for goal in game.goals:
        places = [holder for holder in here if holder in goal.places]
        if goal.thing in held and places:
            inside = places[0] in game.containers
            plan.append(f"insert {goal.thing} into {places[0]}" if inside else f"put {goal.thing} on {places[0]}")
            held.remove(goal.thing)
    return _State(state.room, frozenset(waiting), frozenset(held)), plan
