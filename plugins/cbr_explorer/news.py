"""What is new, what news is expected of a command, and what lies ahead.

News of a step is a number in [0, 1]: what is seen for the first time, weighed by kind; a reward that was never
earned is 1. What is expected of a command backs off: from what it brought in this room to what it brought
elsewhere, to what commands of its template did. Each level learns from what is tried for the first time one
level finer, so that news which is used up in one place does not speak against the next.

    worth(view, a) = max(expected(room, a) stale^n, gamma V(what a leads to))      n tries of a in this view
    V(view)        = max over a of worth(view, a)                                  as it was seen last
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cbr_explorer.config import ExplorerConfig
from cbr_explorer.ways import shortest

WEIGHTS = {"room": 1.0, "thing": 0.6, "command": 0.3, "sentence": 0.2, "load": 0.1, "view": 0.05}
"""What one new item of a kind is worth."""
COUNTED = 3
"""New items of one kind that count in one step."""
FIRST = 0.3
"""Expected of a template that was never used."""
TEMPLATE_RATE, COMMAND_RATE, ROOM_RATE = 0.2, 0.2, 0.5
"""How far an estimate moves towards what came."""
LOST = -1
"""Where a command led that ended the game or cost points."""
Item = str | int


class News:
    """Of one game.

    Attributes:
        leads: (view, command) -> (tries, the view it led to last, or `LOST`).
        losses: template -> how often its commands were lost.
    """

    def __init__(self, config: ExplorerConfig) -> None:
        self._gamma, self._stale = config.gamma, config.stale
        self._seen: dict[str, dict[Item, None]] = {kind: {} for kind in config.news}
        self._earned: dict[tuple[int, int], float] = {}
        self._of_template: dict[str, float] = {}
        self._of_command: dict[int, float] = {}
        self._of_room: dict[tuple[int, int], float] = {}
        self.leads: dict[tuple[int, int], tuple[int, int]] = {}
        self.losses: dict[str, int] = {}
        self._rooms: dict[tuple[int, int], int] = {}
        self._value: dict[int, float] = {}
        self._room_value: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"News({len(self.leads)} commands tried)"

    # -- what is new -----------------------------------------------------------------------------------------

    def take(self, found: Mapping[str, Iterable[Item]]) -> float:
        """How much of what was found is new; it is not, the next time."""
        total = 0.0
        for kind, seen in self._seen.items():
            new = [item for item in found[kind] if item not in seen]
            seen.update(dict.fromkeys(new))
            total += WEIGHTS[kind] * min(len(new), COUNTED)
        return min(1.0, total)

    def earns(self, room: int, command: int, reward: float) -> bool:
        """Whether a command was rewarded in a room as never before."""
        new = reward > self._earned.get((room, command), 0.0)
        if new:
            self._earned[room, command] = reward
        return new

    # -- what is expected ------------------------------------------------------------------------------------

    def expected(self, room: int, command: int, template: str) -> float:
        """News that a command is expected to bring in a room."""
        found = self._of_room.get((room, command))
        if found is None:
            found = self._of_command.get(command)
        return self._of_template.get(template, FIRST) if found is None else found

    def learn(self, view: int, room: int, command: int, template: str, news: float) -> None:
        """A command brought so much news."""
        if news <= 0 and (view, command) in self.leads:
            return
        template_now = self._of_template.get(template, FIRST)
        command_now = self._of_command.get(command, template_now)
        room_now = self._of_room.get((room, command), command_now)
        if command not in self._of_command:
            self._of_template[template] = template_now + TEMPLATE_RATE * (news - template_now)
        if (room, command) not in self._of_room:
            self._of_command[command] = command_now + COMMAND_RATE * (news - command_now)
        self._of_room[room, command] = room_now + ROOM_RATE * (news - room_now)

    def lead(self, view: int, command: int, after: int) -> None:
        """A command led from a view to another one, or to a loss."""
        tries, _ = self.leads.get((view, command), (0, after))
        self.leads[view, command] = (tries + 1, after)

    def go(self, room: int, command: int, after: int) -> None:
        """A command led from a room to another one, or left it."""
        self._rooms[room, command] = after

    # -- what lies ahead -------------------------------------------------------------------------------------

    def value(self, view: int) -> float:
        """V of a view."""
        return self._value.get(view, FIRST)

    def worth(self, view: int, room: int, command: int, template: str) -> float:
        """What a command is worth in a view. Where it was never tried, what is known of the room says what lies
        ahead."""
        expected = self.expected(room, command, template)
        tries, after = self.leads.get((view, command), (0, view))
        if after == LOST:
            return 0.0
        if tries:
            ahead = self._value.get(after, 0.0) if after != view else 0.0
        else:
            ahead = self._ahead(room, command)
        return max(expected * self._stale**tries, self._gamma * ahead)

    def look(self, view: int, room: int, worths: Iterable[float], commands: Iterable[tuple[int, str]]) -> None:
        """Keep V of a view, and the same of a room, by what each command there is worth."""
        self._value[view] = max(worths, default=0.0)
        rooms = (max(self.expected(room, *each), self._gamma * self._ahead(room, each[0])) for each in commands)
        self._room_value[room] = max(rooms, default=0.0)

    def cut_off(self, view: int) -> None:
        """An episode ran out of steps in a view: what lies ahead of it was not reached."""
        self._value[view] = self.value(view) / 2

    def back(self, room: int, command: int, goal: int) -> list[int] | None:
        """Commands that lead, by the map of rooms, to a room from where a command led in another; None where the
        map shows no way."""
        exits: dict[int, dict[int, int]] = {}
        for (before, way), after in self._rooms.items():
            exits.setdefault(before, {})[way] = after
        found = shortest(exits, self._rooms.get((room, command), room), goal)
        return None if found is None else [way for _, way in found]

    def _ahead(self, room: int, command: int) -> float:
        there = self._rooms.get((room, command), room)
        return self._room_value.get(there, 0.0) if there != room else 0.0

    # -- checkpoints -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "seen": {kind: list(seen) for kind, seen in self._seen.items()},
            "templates": self._of_template,
            "commands": list(self._of_command.items()),
            "losses": self.losses,
            "pairs": [_rows(pairs) for pairs in self._pairs()],
            "leads": [[*key, *found] for key, found in self.leads.items()],
            "values": [list(values.items()) for values in (self._value, self._room_value)],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._seen = {kind: dict.fromkeys(items) for kind, items in state["seen"].items()}
        self._of_template, self.losses = dict(state["templates"]), dict(state["losses"])
        self._of_command = dict(map(tuple, state["commands"]))
        for pairs, rows in zip(self._pairs(), state["pairs"], strict=True):
            pairs.clear()
            pairs.update({(left, right): value for left, right, value in rows})
        self.leads = {(view, command): (tries, after) for view, command, tries, after in state["leads"]}
        self._value, self._room_value = (dict(map(tuple, rows)) for rows in state["values"])

    def _pairs(self) -> tuple[dict[tuple[int, int], Any], ...]:
        return self._earned, self._of_room, self._rooms


def _rows(pairs: Mapping[tuple[int, int], Any]) -> Sequence[Any]:
    return [[*key, value] for key, value in pairs.items()]
