"""Ways that no episode went as a whole: from what one saw to what another saw, command by command.

A spot is a view with a score. What a command did at a spot is believed until it does something else there, so
that the way to a case may be shorter than its own solution: loops fall out, and pieces of several episodes are
put together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from cbr_keys.numbered import Numbered

Way = list[tuple[int, int]]
"""(spot, command given there), in their order."""


def shortest(edges: Mapping[int, Mapping[int, int]], start: int, goal: int) -> Way | None:
    """The shortest way, breadth first; None where there is none.

    Args:
        edges: spot (or room) -> command -> where it leads.
    """
    came: dict[int, tuple[int, int]] = {start: (-1, -1)}
    queue = deque([start])
    while queue and goal not in came:
        here = queue.popleft()
        for command, after in edges.get(here, {}).items():
            if after not in came:
                came[after] = (here, command)
                queue.append(after)
    if goal not in came:
        return None
    way: Way = []
    while goal != start:
        way.append(came[goal])
        goal = came[goal][0]
    return way[::-1]


class Ways:
    """Spots, and the commands between them.

    Attributes:
        about: spot -> (score, view, room, load).
    """

    def __init__(self) -> None:
        self.about: list[tuple[float, int, int, int]] = []
        self._spots: Numbered[str] = Numbered()
        self._edges: dict[int, dict[int, int]] = {}
        self._from_start: dict[int, tuple[int, int, int]] = {}

    def __repr__(self) -> str:
        return f"Ways({len(self.about)} spots)"

    def spot(self, score: float, view: int, room: int, load: int) -> int:
        """The number of a spot. The first one is where the game starts."""
        number = self._spots.number(f"{score:g} {view}")
        if number == len(self.about):
            self.about.append((score, view, room, load))
            if number == 0:
                self._from_start[0] = (0, 0, -1)
        return number

    def known(self, score: float, view: int) -> int:
        """The number of a spot, -1 if it is not known."""
        return self._spots.get(f"{score:g} {view}", -1)

    def link(self, spot: int, command: int, after: int) -> None:
        """A command led from one spot to another."""
        ways = self._edges.setdefault(spot, {})
        known, ways[command] = ways.get(command), after
        if known not in (None, after) and self._from_start.get(known, (0, -1, -1))[1:] == (spot, command):
            self._measure()  # a shortest way led through here
        elif known != after:
            self._nearer([(spot, command, after)])

    def distance(self, spot: int) -> int | None:
        """How many commands lead from the start to a spot; None where nothing is believed to."""
        found = self._from_start.get(spot)
        return None if found is None else found[0]

    def to(self, spot: int) -> Way:
        """The shortest way from the start to a spot that has a distance."""
        way: Way = []
        while spot != 0:
            _, spot, command = self._from_start[spot]
            way.append((spot, command))
        return way[::-1]

    def between(self, spot: int, goal: int) -> Way | None:
        """The shortest way from one spot to another; None where nothing is believed to lead there."""
        return shortest(self._edges, spot, goal)

    def _nearer(self, edges: list[tuple[int, int, int]]) -> None:
        """Take in what became nearer to the start, breadth first."""
        queue = deque(edges)
        while queue:
            spot, command, after = queue.popleft()
            if spot not in self._from_start:
                continue
            distance = self._from_start[spot][0] + 1
            if after not in self._from_start or distance < self._from_start[after][0]:
                self._from_start[after] = (distance, spot, command)
                queue.extend((after, *way) for way in self._edges.get(after, {}).items())

    def _measure(self) -> None:
        """All distances anew."""
        self._from_start = {0: (0, 0, -1)}
        self._nearer([(0, *way) for way in self._edges.get(0, {}).items()])

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "spots": self._spots.values,
            "about": self.about,
            "edges": [[spot, *way] for spot, ways in self._edges.items() for way in ways.items()],
            "from_start": [[spot, *found] for spot, found in self._from_start.items()],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._spots = Numbered(state["spots"])
        self.about = [(score, view, room, load) for score, view, room, load in state["about"]]
        self._edges = {}
        for spot, command, after in state["edges"]:
            self._edges.setdefault(spot, {})[command] = after
        self._from_start = {spot: (d, before, command) for spot, d, before, command in state["from_start"]}
