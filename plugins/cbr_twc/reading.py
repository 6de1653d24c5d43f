"""Read a game's .json: TextWorld's ids, facts and quests become a `Game`, or a GameError says why not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cbr_twc.game import DIRECTIONS, Exit, Game, Goal
from cbr_twc.rules import read_rules
from cbr_twc.text import Text, compile_text
from cbr_twc.world import PLAYER, World
from cbrcore.errors import GameError

_KINDS = {"P": "", "I": "", "slot": "", "r": "room", "c": "container", "s": "supporter", "d": "door"}
_KINDS |= {"o": "thing", "f": "thing"}
_PREDICATES = {"at", "in", "on", "open", "closed", "link", "free", "used"} | {f"{d}_of" for d in DIRECTIONS}


def load_game(path: Path) -> Game:
    """Read a game's .json.

    Raises:
        GameError: the file is damaged, is no TextWorld game, or holds what TWC games do not have.
    """
    data = read_json(path)
    try:
        return _Reader(data).game(path.stem)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise GameError(
            f"{path} is not the description of a TextWorld game: {type(error).__name__} {error}",
            hint="Put the .json beside the game that TextWorld wrote together with it.",
        ) from error
    except ValueError as error:
        raise GameError(
            f"{path} is not a TWC game: {error}",
            hint="This environment plays games whose goal is to put things in their places; see its README.",
        ) from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; GameError naming the file if it is damaged."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise GameError(
            f"{path} is damaged or only half there: {error}", hint="Copy or download the file again."
        ) from error


class _Reader:
    """Turns the .json's ids and facts into a `Game`; ValueError if it is not a TWC game."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.infos = dict(data["infos"])
        self.facts = [(fact["name"], [a["name"] for a in fact["arguments"]]) for fact in data["world"]]
        self.kinds = {id_: self._kind(info["type"]) for id_, info in self.infos.items()}
        self.names = {id_: str(info["name"]).lower() for id_, info in self.infos.items() if self.kinds[id_]}
        self.names |= {"P": PLAYER, "I": PLAYER}
        self._check()

    def _kind(self, kind: str) -> str:
        if kind not in _KINDS:
            raise ValueError(f"it has entities of the kind {kind!r}")
        return _KINDS[kind]

    def _check(self) -> None:
        names = Counter(name for id_, name in self.names.items() if id_ != "I")
        if doubled := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"two entities share the name {doubled[0]!r}")
        if unknown := sorted({name for name, _ in self.facts} - _PREDICATES):
            raise ValueError(f"it has facts of the kind {', '.join(unknown)}")

    def game(self, name: str) -> Game:
        rules = read_rules(self.data["KB"]["logic"])
        rooms = self._of_kind("room")
        start = self._start(rooms)
        named = {self.names[id_]: info for id_, info in self.infos.items() if self.kinds[id_]}
        goals = tuple(self._quests("win_events"))
        if len({goal.thing for goal in goals}) < len(goals):
            raise ValueError("two quests are about the same thing")
        if solved := [goal.thing for goal in goals if start.place[goal.thing] in goal.places]:
            raise ValueError(f"{solved[0]!r} is in its place from the start")
        return Game(
            name=name,
            things=tuple(start.place),
            containers=frozenset(self._of_kind("container")),
            doors=frozenset(self._of_kind("door")),
            furniture={room: tuple(self._furniture(room)) for room in rooms},
            exits={room: dict(self._exits(room)) for room in rooms},
            goals=goals,
            traps=tuple(self._quests("fail_events")),
            start=start,
            rules=rules,
            capacity=self._slots() if rules.slots else len(start.place),
            printed={name: info["name"] for name, info in named.items()},
            phrases={name: _phrase(info) for name, info in named.items()},
            titles={room: f"-= {named[room]['name'].title()} =-" for room in rooms},
            texts={room: compile_text(named[room]["desc"], self.names) for room in rooms},
            looks={name: self._look(info) for name, info in named.items() if name not in rooms},
        )

    def _of_kind(self, kind: str) -> list[str]:
        return [name for id_, name in self.names.items() if self.kinds[id_] == kind]

    def _slots(self) -> int:
        return sum(info["type"] == "slot" for info in self.infos.values())

    def _look(self, info: Mapping[str, Any]) -> Text:
        """A thing's description speaks of itself as "[noun]", "[if open]"."""
        source = info["desc"].replace("[noun]", info["name"])
        own_state = re.compile(r"\[(else )?if (open|closed|locked)\]")
        return compile_text(own_state.sub(rf"[\1if {info['id']} is \2]", source), self.names)

    def _named(self, *predicates: str) -> Iterator[tuple[str, ...]]:
        """The arguments of the facts with these predicates, as names."""
        for predicate, arguments in self.facts:
            if predicate in predicates:
                yield tuple(self.names.get(argument, argument) for argument in arguments)

    def _start(self, rooms: Iterable[str]) -> World:
        things = set(self._of_kind("thing"))
        place = {thing: place for thing, place in self._named("at", "on", "in") if thing in things}
        if lost := things - set(place):
            raise ValueError(f"{sorted(lost)[0]!r} is nowhere")
        holders = [*rooms, *self._of_kind("container"), *self._of_kind("supporter"), PLAYER]
        contents = {holder: [thing for thing in place if place[thing] == holder] for holder in holders}
        room = next(room for thing, room in self._named("at") if thing == PLAYER)
        return World(room, frozenset(name for (name,) in self._named("open")), contents, place)

    def _furniture(self, room: str) -> Iterator[str]:
        holders = {*self._of_kind("container"), *self._of_kind("supporter")}
        return (name for name, place in self._named("at") if place == room and name in holders)

    def _exits(self, room: str) -> Iterator[tuple[str, Exit]]:
        doors = {(here, there): door for here, door, there in self._named("link")}
        for direction in DIRECTIONS:
            for there, here in self._named(f"{direction}_of"):
                if here == room:
                    yield direction, Exit(there, doors.get((here, there)))

    def _quests(self, kind: str) -> Iterator[Goal]:
        """One per quest that has events of this kind, each of the form "thing on or in place"."""
        for quest in self.data["quests"]:
            if quest["reward"] != 1 or quest.get("optional") or quest.get("repeatable"):
                raise ValueError("it has a quest that is optional, repeatable or not worth one point")
            facts = [self._goal_fact(event["condition"]["preconditions"]) for event in quest[kind]]
            for thing in {thing for thing, _ in facts}:
                if len({other for other, _ in facts}) > 1:
                    raise ValueError("a quest is about several things")
                yield Goal(thing, frozenset(place for _, place in facts))

    def _goal_fact(self, preconditions: Any) -> tuple[str, str]:
        if len(preconditions) != 1 or preconditions[0]["name"] not in ("on", "in"):
            raise ValueError("a quest asks for more than one thing in one place")
        thing, place = (self.names[argument["name"]] for argument in preconditions[0]["arguments"])
        return thing, place


def _phrase(info: Mapping[str, Any]) -> str:
    """Name with article. The game looks at the first letter only: ``an used tissue``."""
    name = str(info["name"])
    return f"{info['indefinite'] or ('an' if name[0].lower() in 'aeiou' else 'a')} {name}"
