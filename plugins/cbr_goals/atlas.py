"""Maps of games that outlast an episode: ways that were gone, and where things were found first.

For games that are the same each time they begin. What is remembered of earlier episodes counts until the running
one shows something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cbr_goals.ways import room_of
from cbrcore.interfaces import Places
from cbrcore.types import Action, Observation, StepResult

THE_END = "(the end)"
"""Where a command leads that ended an episode."""


@dataclass
class GameMap:
    """Of one game: room -> command -> room (None: nobody went there), thing -> where it was found, holders, and
    room -> command without entities -> the action there that made it admissible."""

    exits: dict[str, dict[str, str | None]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    holders: set[str] = field(default_factory=set)
    opens: dict[str, dict[str, str]] = field(default_factory=dict)


class Atlas:
    """The maps of all games, by name."""

    def __init__(self) -> None:
        self.maps: dict[str, GameMap] = {}

    def __repr__(self) -> str:
        return f"Atlas({', '.join(f'{game}: {len(known.exits)} rooms' for game, known in self.maps.items())})"

    def of(self, game: str) -> GameMap:
        """The map of a game, to look at; an empty one for a new game."""
        return self.maps.get(game) or GameMap()

    def kept(self, game: str) -> GameMap:
        """The map of a game, to add to."""
        return self.maps.setdefault(game, GameMap())

    def state(self) -> dict[str, Any]:
        """Plain data."""
        return {
            game: {**vars(known), "holders": sorted(known.holders)} for game, known in sorted(self.maps.items())
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """What `state` gave."""
        self.maps = {}
        for game, known in state.items():
            exits, opens = ({room: dict(of) for room, of in known[part].items()} for part in ("exits", "opens"))
            self.maps[game] = GameMap(exits, dict(known["where"]), set(known["holders"]), opens)


class Recall:
    """What is known of a game's map in one episode.

    Args:
        atlas: is read; in training what was seen is added to it.
    """

    def __init__(self, atlas: Atlas, *, learning: bool) -> None:
        self._atlas, self._learning = atlas, learning
        self._exits: dict[str, dict[str, str | None]] = {}
        self._where: dict[str, str] | None = None
        self._found: set[str] = set()
        self._vain: set[tuple[str, str]] = set()
        self._blocked: set[tuple[str, str]] = set()

    def see(self, seen: Observation, now: Places) -> Places:
        """The map of the episode so far over that of the game; `now` is what the observation tells."""
        known = self._atlas.kept(seen.game) if self._learning else self._atlas.of(seen.game)
        here = self._exits.setdefault(now.here, {})
        for command, there in now.exits.get(now.here, {}).items():
            here.setdefault(command, there)
        self._block(seen, now.here, {**known.exits.get(now.here, {}), **here})
        self._where = self._believed(dict(known.where) if self._where is None else self._where, now)
        if self._learning:
            self._learn(known, now, here)
        holders = now.holders | (known.holders & self._where.keys())
        return replace(
            now, exits=self._all_exits(known, now.here), where=dict(self._where), holders=frozenset(holders)
        )

    def moved(self, seen: Observation, before: Places, action: Action, result: StepResult, after: Places) -> None:
        """Take in what a command led to: another room, the end, or nothing."""
        ended = result.ending is not None and result.ending.terminal
        there = THE_END if ended else after.here
        if self._learning and there == before.here:
            before_it = {each.text for each in seen.admissible}
            new = (a.text for a in result.observation.admissible if not a.entities and a.text not in before_it)
            self._atlas.kept(seen.game).opens.setdefault(there, {}).update(dict.fromkeys(new, action.text))
        if ended or there != before.here:
            self._goes(seen.game, before.here, action.text, there)
        elif result.reward <= 0 and any(each.text == action.text for each in result.observation.admissible):
            self._vain.add((before.here, action.text))
            if action.text in self._exits.get(before.here, {}):
                self._goes(seen.game, before.here, action.text, before.here)

    def opener(self, game: str, room: str, command: str) -> str | None:
        """The action that made a command without entities admissible in this room, earlier or in this episode."""
        return self._atlas.of(game).opens.get(room, {}).get(command)

    def is_vain(self, room: str, action: Action) -> bool:
        """Whether the action did nothing here in this episode that would keep it from being done again."""
        return (room, action.text) in self._vain

    def _goes(self, game: str, room: str, command: str, there: str) -> None:
        self._exits.setdefault(room, {})[command] = there
        if self._learning:
            self._atlas.kept(game).exits.setdefault(room, {})[command] = there

    def _block(self, seen: Observation, room: str, exits: Mapping[str, str | None]) -> None:
        """Ways out of this room that cannot be gone now are no ways until one is here again."""
        open_now = {action.text for action in seen.admissible}
        self._blocked = {each for each in self._blocked if each[0] != room}
        self._blocked.update((room, command) for command in exits if command not in open_now)

    def _all_exits(self, known: GameMap, here: str) -> dict[str, dict[str, str | None]]:
        """Of each room the ways that are not blocked; where the episode knows better, what it knows."""
        merged: dict[str, dict[str, str | None]] = {}
        for room in dict.fromkeys([here, *known.exits, *self._exits]):
            before, own = known.exits.get(room, {}), self._exits.get(room, {})
            ways = {**before, **{way: there or before.get(way) for way, there in own.items()}}
            merged[room] = {way: there for way, there in ways.items() if (room, way) not in self._blocked}
        return merged

    def _believed(self, before: dict[str, str], now: Places) -> dict[str, str]:
        """Where things are: what is seen, and what was believed, unless it would be in sight."""
        merged = {**before, **now.where}
        gone = [
            thing for thing, place in before.items()
            if thing not in now.where and place in (now.here, now.player)
        ]  # fmt: skip
        return {thing: place for thing, place in merged.items() if thing not in gone}

    def _learn(self, known: GameMap, now: Places, here: Mapping[str, str | None]) -> None:
        """Keep the exits of the room, and where things are that are seen for the first time in the episode."""
        ways = known.exits.setdefault(now.here, {})
        for command, there in here.items():
            if ways.get(command) is None:
                ways[command] = there
        for thing, place in now.where.items():
            if thing not in self._found and place != now.player and room_of(thing, now) is not None:
                known.where[thing] = place
        self._found.update(now.where)
        known.holders.update(now.holders)
