"""A game as its .json describes it: rooms, things, goals and texts. Names are in lower case throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from cbr_twc.rules import Rules
from cbr_twc.text import Text, enumerate_things, print_text
from cbr_twc.world import PLAYER, World
from cbrcore.types import Action, EntityTuple

DIRECTIONS = ("north", "south", "east", "west")


class Exit(NamedTuple):
    """Where an exit leads, and the door in it."""

    room: str
    door: str | None = None


@dataclass(frozen=True)
class Goal:
    """`thing` belongs on or in any of `places`; the first time it gets there earns a point."""

    thing: str
    places: frozenset[str]


@dataclass(frozen=True, eq=False)
class Game:
    """What does not change while a game is played, and its first state.

    Attributes:
        name: the file's name without suffix.
        things: what can be carried.
        furniture: room -> its containers and supporters.
        exits: room -> direction -> where it leads.
        goals, traps: one goal per misplaced thing; a thing in a trap's place loses the game (TWC has none).
        names: whatever a command may name.
        printed: name -> the name as the game prints it ("bbq" -> "BBQ").
        phrases: name -> the name with its article, as in a list.
        titles, texts: room -> the head line and the text of its description.
        looks: thing, holder or door -> its description.
        capacity: how many things the player can hold.
    """

    name: str
    things: tuple[str, ...]
    containers: frozenset[str]
    doors: frozenset[str]
    furniture: Mapping[str, tuple[str, ...]]
    exits: Mapping[str, Mapping[str, Exit]]
    goals: tuple[Goal, ...]
    traps: tuple[Goal, ...]
    start: World
    rules: Rules
    capacity: int
    printed: Mapping[str, str]
    phrases: Mapping[str, str]
    titles: Mapping[str, str]
    texts: Mapping[str, Text]
    looks: Mapping[str, Text]
    _actions: dict[tuple[str, EntityTuple], Action] = field(default_factory=dict, repr=False)

    @property
    def rooms(self) -> tuple[str, ...]:
        return tuple(self.furniture)

    @cached_property
    def names(self) -> frozenset[str]:
        holders = (holder for furniture in self.furniture.values() for holder in furniture)
        return self.doors.union(self.things, holders)

    @cached_property
    def max_score(self) -> int:
        return len(self.goals)

    def action(self, template: str, *entities: str) -> Action:
        """The action of a template on entities; the same object at every call."""
        key = template, entities
        if key not in self._actions:
            self._actions[key] = Action.from_template(template, entities)
        return self._actions[key]

    def description(self, world: World) -> str:
        """What ``look`` prints."""
        room = self.titles[world.room] + "\n" + print_text(self.texts[world.room], world, self.phrases)
        floor = world.contents[world.room]
        if floor:
            room += f"\n\nThere is {self.enumerate(floor)} on the floor."
        return room.strip()

    def inventory(self, world: World) -> str:
        """What ``inventory`` prints."""
        held = world.contents[PLAYER]
        return f"You are carrying: {self.enumerate(held)}." if held else "You are carrying nothing."

    def enumerate(self, things: Sequence[str]) -> str:
        """``a plate, an apple and some milk``, in the given order; "" for nothing."""
        return enumerate_things(things, self.phrases) if things else ""

    def definite(self, name: str) -> str:
        """``the plate``; the games speak of doors without article."""
        return self.printed[name] if name in self.doors else f"the {self.printed[name]}"

    def appearance(self, name: str, world: World) -> str:
        """What ``examine`` prints."""
        text = print_text(self.looks[name], world, self.phrases).strip()
        inside = name in self.containers
        things = world.contents.get(name, ()) if not inside or name in world.open else ()
        if not things:
            return text
        verb = "is" if len(things) == 1 else "are"
        return f"{text}\n\n{'In' if inside else 'On'} the {self.printed[name]} {verb} {self.enumerate(things)}."

    def rivals(self, action: Action) -> frozenset[str]:
        """Other things that a name in the action fits too: "desk" fits the desk chair."""
        return frozenset().union(*(self._also_fits.get(name, ()) for name in action.entities))

    @cached_property
    def _also_fits(self) -> dict[str, frozenset[str]]:
        """Name -> longer names that hold all its words; the Z-machine keeps nine letters of a word."""
        words = {name: {word[:9] for word in name.split()} for name in self.names}
        longer = {one: frozenset(other for other in words if words[one] <= words[other]) - {one} for one in words}
        return {name: others for name, others in longer.items() if others}

    def may_ask_back(self, action: Action) -> bool:
        """Whether the game may ask which thing is meant, and do nothing.

        Of two things that a name fits, TextWorld's games take the one that is named in full. They compare with the
        printed names, which fails if one has a capital: to "put red T-shirt on desk" one of the published games
        answers "Which do you mean, the desk or the desk chair?", although it lists this command.
        """
        return bool(self.rivals(action)) and any(self.printed[name] != name for name in action.entities)
