"""Reuse in a closed loop: at each step the solution is compared with what is seen."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from cbr_explorer.archive import ANYWHERE
from cbr_explorer.memory import GameMemory
from cbr_explorer.revision import Plan
from cbr_explorer.scene import Scene

ALIKE = 0.5
"""Views in the same room are alike if so great a share of the things carried in either is carried in both."""
TRIED = 3
"""So many views that are alike are tried."""


class Here(NamedTuple):
    """Where one is, by numbers of the archive, and which commands are offered."""

    scene: Scene
    score: float
    view: int
    room: int
    offered: Container[int]


def go_on(plan: Plan, here: Here) -> bool:
    """Whether the solution goes on here; `plan.at` is then the one that is due if this is its view, else
    a later one of this view, else the one that is due, if this is its room. No step that earned is passed over."""
    if plan.over:
        return False
    step = plan.steps[plan.at]
    may = step.command in here.offered
    if may and here.view == step.view:
        return True
    same_view = [at for at in _ahead(plan, here) if plan.steps[at].view == here.view]
    if same_view:
        plan.at = same_view[-1]
        return True
    return may and step.room in (here.room, ANYWHERE)


def mend(memory: GameMemory, plan: Plan, here: Here) -> bool:
    """Where a solution does not go on: another way to its case from where this view was seen before; else a later
    step in this room; else the way from where a view was seen that is alike. False: the plan is over."""
    exact = memory.ways.known(here.score, here.view)
    if exact >= 0 and _take_way(memory, plan, here, exact):
        return True
    same_room = [at for at in _ahead(plan, here) if plan.steps[at].room == here.room]
    if same_room:
        plan.at = same_room[0]
        return True
    if any(_take_way(memory, plan, here, spot) for spot in _spots_alike(memory, here)):
        return True
    plan.steps = plan.steps[: plan.at]
    return False


def _ahead(plan: Plan, here: Here) -> list[int]:
    """The steps after the one that is due that may be taken here; the first rewarded one is the last of them."""
    end = plan.at
    while end < len(plan.steps) - 1 and not plan.steps[end].earns:
        end += 1
    return [at for at in range(plan.at + 1, end + 1) if plan.steps[at].command in here.offered]


def _take_way(memory: GameMemory, plan: Plan, here: Here, spot: int) -> bool:
    """Go on from a spot to the case of the plan, if a way is known and its first command is offered."""
    goal = memory.spot(memory.archive.cases[plan.case])
    way = memory.ways.between(spot, goal)
    if not way or way[0][1] not in here.offered:
        return False
    plan.steps, plan.at, plan.how = memory.steps_of(way, goal), 0, "by another way"
    return True


def _spots_alike(memory: GameMemory, here: Here) -> list[int]:
    """Of this room and score those where mostly the same is carried, the most alike first."""
    loads = memory.archive.loads.values
    shares = {
        spot: alike(here.scene.carried, loads[load])
        for spot, (score, _, room, load) in enumerate(memory.ways.about)
        if (score, room) == (here.score, here.room)
    }
    near = (spot for spot, share in shares.items() if share >= ALIKE)
    return sorted(near, key=lambda spot: (-shares[spot], spot))[:TRIED]


def alike(carried: frozenset[str], load: str) -> float:
    """The share of things carried in both, of those carried in either; 1 where nothing is."""
    other = frozenset(load.split(", ")) - {""}
    return len(carried & other) / len(carried | other) if carried | other else 1.0
