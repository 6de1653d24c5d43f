"""The archive of one game: every sequence of commands that was played, and the cases that they lead to.

Sequences are kept as a trie: a node is its parent and one more command, so that a case of a hundred commands
costs one entry. Where a game begins in the same way each time, the commands of a node lead there again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cbr_explorer.scene import Scene
from cbr_keys.numbered import Numbered

ROOT = 0
"""The node of the start."""
NOWHERE = -1
"""The case of a node where the game has ended, an episode was cut off, or points were lost."""
ANYWHERE = -1
"""The view and the room of a step that is taken wherever one is."""
Cell = tuple[float, int, int]
"""(score, load, room)"""
Scored = tuple[float, int]
"""(score, node)"""


@dataclass
class StartCase:
    """A place to start from. Its key is (world, score); its solution are the commands that lead to `node`.

    Attributes:
        node: of the trie; the nearest one to the start that is known.
        load: the set of things carried; `carried` is their number.
        episode: in which it was retained.
    """

    node: int
    view: int
    room: int
    load: int
    carried: int
    score: float
    episode: int


class Step(NamedTuple):
    """One step of a solution: a command, and what it is given in.

    Attributes:
        view, room: before the command.
        earns: whether it was rewarded.
    """

    command: int
    view: int
    room: int
    earns: bool = False


class Archive:
    """What was played of one game.

    Attributes:
        commands, views, rooms, loads: their names; `templates` of each command.
        cases: in the order in which they were retained.
        cells: (score, load, room) -> the shortest case with them, which dominates the others.
        best: (score, node) of the best score, of equal ones the nearest to the start; None before the first
        step. final: the same of the ends of episodes.
    """

    def __init__(self) -> None:
        self.commands, self.views, self.rooms, self.loads, self._worlds = (Numbered[str]() for _ in range(5))
        self.templates: list[str] = []
        self.cases: list[StartCase] = []
        self.cells: dict[Cell, int] = {}
        self.best: Scored | None = None
        self.final: Scored | None = None
        self._parents, self._by, self._rewards, self._depths = [ROOT], [-1], [0.0], [0]
        self._case_of, self._views = [NOWHERE], [ANYWHERE]
        self._children: dict[tuple[int, int], int] = {}

    def __repr__(self) -> str:
        return f"Archive({len(self.cases)} cases, {len(self)} nodes)"

    def __len__(self) -> int:
        return len(self._parents)

    def command(self, text: str, template: str) -> int:
        """The number of a command."""
        number = self.commands.number(text)
        if number == len(self.templates):
            self.templates.append(template)
        return number

    def depth(self, node: int) -> int:
        """How many commands lead to a node."""
        return self._depths[node]

    def case_of(self, node: int) -> int:
        """The number of the case at a node, or `NOWHERE`."""
        return self._case_of[node]

    def nearest_case(self, node: int) -> int:
        """The number of the last case on the way to a node."""
        while self._case_of[node] == NOWHERE and node != ROOT:
            node = self._parents[node]
        return self._case_of[node]

    def child(self, node: int, command: int) -> int | None:
        """Where a command leads from a node; None where nobody knows."""
        return self._children.get((node, command))

    def texts(self, node: int) -> list[str]:
        """The commands that lead to a node, as they are written."""
        return [self.commands.values[step.command] for step in self.steps(node)]

    def steps(self, node: int) -> list[Step]:
        """The commands that lead to a node, each in the view that was seen there: the same world can look another
        way at another time. Where points were lost there is no case, and the next command's place is not known."""
        found = []
        while node != ROOT:
            before = self._parents[node]
            number = self._case_of[before]
            room = ANYWHERE if number == NOWHERE else self.cases[number].room
            found.append(Step(self._by[node], self._views[before], room, self._rewards[node] > 0))
            node = before
        return found[::-1]

    # -- retain --------------------------------------------------------------------------------------------

    def add(self, node: int, command: int, reward: float) -> int:
        """The node behind a command; a new one the first time."""
        found = self._children.get((node, command))
        if found is None:
            found = self._children[node, command] = len(self)
            self._parents.append(node)
            self._by.append(command)
            self._rewards.append(reward)
            self._case_of.append(NOWHERE)
            self._views.append(ANYWHERE)
            self._depths.append(self._depths[node] + 1)
        return found

    def retain(self, node: int, scene: Scene, score: float, episode: int) -> int:
        """The number of the case at a node: a new case, or the known one of an equal world and score, which gets
        this node as its solution if it is shorter."""
        number, view = self._worlds.number(f"{score:g} {scene.world}"), self.views.number(scene.view)
        if number == len(self.cases):
            room, load = self.rooms.number(scene.room), self.loads.number(scene.load)
            self.cases.append(StartCase(node, view, room, load, len(scene.carried), score, episode))
        case = self.cases[number]
        if self._depths[node] < self._depths[case.node]:
            case.node = node
        self._case_of[node], self._views[node] = number, view
        cell = (score, case.load, case.room)
        if cell not in self.cells or self.length(number) < self.length(self.cells[cell]):
            self.cells[cell] = number
        return number

    def length(self, number: int) -> int:
        """How many commands a case has."""
        return self._depths[self.cases[number].node]

    def note_score(self, node: int, score: float, *, ended: bool) -> None:
        """A node has this score; with `ended` an episode ends there."""
        self.best = self._better(self.best, (score, node))
        if ended:
            self.final = self._better(self.final, (score, node))

    def _better(self, known: Scored | None, found: Scored) -> Scored:
        if known is None or found[0] > known[0]:
            return found
        return found if found[0] == known[0] and self._depths[found[1]] < self._depths[known[1]] else known

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "commands": self.commands.values,
            "templates": self.templates,
            "views": self.views.values,
            "rooms": self.rooms.values,
            "loads": self.loads.values,
            "worlds": self._worlds.values,
            "cases": [list(vars(case).values()) for case in self.cases],
            "cells": [[*cell, number] for cell, number in self.cells.items()],
            "nodes": [self._parents, self._by, self._rewards, self._case_of, self._views],
            "best": self.best,
            "final": self.final,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.commands, self.views, self.rooms, self.loads, self._worlds = (
            Numbered[str](state[name]) for name in ("commands", "views", "rooms", "loads", "worlds")
        )
        self.templates = list(state["templates"])
        self.cases = [StartCase(*values) for values in state["cases"]]
        self.cells = {(score, load, room): number for score, load, room, number in state["cells"]}
        columns = [list(column) for column in state["nodes"]]
        self._parents, self._by, self._rewards, self._case_of, self._views = columns
        self.best, self.final = (
            None if scored is None else tuple(scored) for scored in (state["best"], state["final"])
        )
        self._children, self._depths = {}, [0]
        for node in range(1, len(self)):
            self._children[self._parents[node], self._by[node]] = node
            self._depths.append(self._depths[self._parents[node]] + 1)
