"""All that is kept of one game between its episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cbr_explorer.archive import Archive, StartCase, Step
from cbr_explorer.config import ExplorerConfig
from cbr_explorer.news import News
from cbr_explorer.scene import Scene
from cbr_explorer.ways import Way, Ways


@dataclass
class Counts:
    """How often a cell, and a set of things carried at a score, was started from; which ways to a case failed;
    which revisions of a case were tried."""

    cells: dict[tuple[float, int, int], int] = field(default_factory=dict)
    loads: dict[tuple[float, int], int] = field(default_factory=dict)
    failed: dict[int, None] = field(default_factory=dict)
    revised: dict[tuple[int, int, int], None] = field(default_factory=dict)


class GameMemory:
    """Of one game: the archive of cases, the ways between what was seen, and what is news.

    Attributes:
        rewards: (room, command) -> the node nearest to the start where it was rewarded.
        found_at: (score, steps of the training) whenever the best score rose.
        horizon: the most steps after which an episode was cut off; None before one was.
    """

    def __init__(self, config: ExplorerConfig) -> None:
        self.archive, self.ways, self.news, self.counts = Archive(), Ways(), News(config), Counts()
        self.rewards: dict[tuple[int, int], int] = {}
        self.found_at: list[tuple[float, int]] = []
        self.horizon: int | None = None

    def __repr__(self) -> str:
        return f"GameMemory({self.archive!r}, {self.ways!r})"

    def spot(self, case: StartCase) -> int:
        """Of a case."""
        return self.ways.spot(case.score, case.view, case.room, case.load)

    def numbers(self, scene: Scene) -> tuple[int, int, int]:
        """Of view, room and things carried; new ones if need be."""
        archive = self.archive
        view, room = archive.views.number(scene.view), archive.rooms.number(scene.room)
        return view, room, archive.loads.number(scene.load)

    def length(self, number: int) -> int:
        """How many commands it takes to return to a case."""
        own = self.archive.length(number)
        if number in self.counts.failed:
            return own
        near = self.ways.distance(self.spot(self.archive.cases[number]))
        return own if near is None else min(own, near)

    def solution(self, number: int) -> list[Step]:
        """The commands that lead to a case: its own, or a shorter way that is believed to lead there."""
        case = self.archive.cases[number]
        if self.length(number) == self.archive.length(number):
            return self.archive.steps(case.node)
        return self.steps_of(self.ways.to(self.spot(case)), self.spot(case))

    def steps_of(self, way: Way, goal: int) -> list[Step]:
        """A way to a spot as steps."""
        about, after = self.ways.about, [spot for spot, _ in way[1:]] + [goal]
        return [
            Step(command, about[spot][1], about[spot][2], about[there][0] > about[spot][0])
            for (spot, command), there in zip(way, after, strict=True)
        ]

    def note_reward(self, room: int, command: int, node: int) -> None:
        """A command was rewarded in a room."""
        known = self.rewards.get((room, command))
        if known is None or self.archive.depth(node) < self.archive.depth(known):
            self.rewards[room, command] = node

    def sequences(self) -> list[dict[str, Any]]:
        """Plain data: of each score the shortest commands that lead to it, with the case there, if there is one;
        there is none where the game ends."""
        archive, shortest = self.archive, dict[float, int]()
        ends = [scored for scored in (archive.best, archive.final) if scored is not None]
        for score, node in [*((case.score, case.node) for case in archive.cases), *ends]:
            known = shortest.setdefault(score, node)
            if archive.depth(node) < archive.depth(known):
                shortest[score] = node
        return [
            {"score": score, "case": archive.case_of(node) + 1 or None, "commands": archive.texts(node)}
            for score, node in sorted(shortest.items(), reverse=True)
        ]

    def facts(self) -> dict[str, Any]:
        """JSON-able: the best score, when it rose, and how much is kept."""
        archive = self.archive
        found = {"cases": len(archive.cases), "nodes": len(archive), "rises": self.found_at}
        if archive.best is not None:
            found |= {"best": archive.best[0], "commands_to_best": archive.depth(archive.best[1])}
        return found

    def state(self) -> dict[str, Any]:
        """Plain data."""
        counts = self.counts
        return {
            **{name: getattr(self, name).state() for name in ("archive", "ways", "news")},
            "cells": [[*cell, count] for cell, count in counts.cells.items()],
            "loads": [[*load, count] for load, count in counts.loads.items()],
            "failed": list(counts.failed),
            "revised": list(counts.revised),
            "rewards": [[*key, node] for key, node in self.rewards.items()],
            "found_at": self.found_at,
            "horizon": self.horizon,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        for name in ("archive", "ways", "news"):
            getattr(self, name).load_state(state[name])
        self.counts = Counts(
            {(score, load, room): count for score, load, room, count in state["cells"]},
            {(score, load): count for score, load, count in state["loads"]},
            dict.fromkeys(state["failed"]),
            dict.fromkeys((kind, number, digest) for kind, number, digest in state["revised"]),
        )
        self.rewards = {(room, command): node for room, command, node in state["rewards"]}
        self.found_at = [(score, step) for score, step in state["found_at"]]
        self.horizon = state["horizon"]
