"""Reuse in a closed loop: at each step the solution is compared with what is seen."""

from __future__ import annotations

from collections.abc import Container

from cbr_explorer.memory import GameMemory
from cbr_explorer.revision import Plan
from cbr_explorer.scene import Scene

ALIKE = 0.5
"""Views in the same room are alike if so great a share of the things carried in either is carried in both."""
ANYWHERE = -1
"""The view and the room of a step that is taken wherever one is."""


def go_on(plan: Plan, view: int, room: int, offered: Container[int]) -> bool:
    """Whether the solution goes on here; `plan.at` is the step then.

    The step whose view this is; else a later one of the same view, or the step itself in the same room, or a
    later one there. No step that earned something is passed over, and no command is given that is not offered.
    """
    if plan.over:
        return False
    step = plan.steps[plan.at]
    may = step.command in offered
    if may and view == step.view:
        return True
    ahead = _ahead(plan)
    same_view = [at for at in ahead if plan.steps[at].view == view and plan.steps[at].command in offered]
    if same_view:
        plan.at = same_view[-1]
        return True
    if may and step.room in (room, ANYWHERE):
        return True
    same_room = [at for at in ahead if plan.steps[at].room == room and plan.steps[at].command in offered]
    if same_room:
        plan.at = same_room[0]
    return bool(same_room)


def _ahead(plan: Plan) -> range:
    """The steps that may be next, after the one that should be."""
    end = plan.at
    while end < len(plan.steps) and not plan.steps[end].earns:
        end += 1
    return range(plan.at + 1, min(end + 1, len(plan.steps)))


def look_up(memory: GameMemory, plan: Plan, scene: Scene, score: float) -> Plan | None:
    """Another way to the case of a plan that does not go on: from where this view, exactly or one that is alike,
    was seen before; None where no way is known."""
    case = memory.archive.cases[plan.case]
    goal = memory.spot(case)
    for spot in _spots(memory, scene, score):
        way = memory.ways.between(spot, goal)
        if way:
            return Plan(plan.case, memory.steps_of(way, goal), how="by another way")
    return None


def _spots(memory: GameMemory, scene: Scene, score: float) -> list[int]:
    """The spot of this view and score, else those that are alike, the most alike first."""
    archive = memory.archive
    room, exact = archive.rooms.get(scene.room, -2), memory.ways.known(score, archive.views.get(scene.view, -2))
    if exact >= 0:
        return [exact]
    shares = {
        spot: alike(scene.carried, archive.loads.names[load])
        for spot, (points, _, place, load) in enumerate(memory.ways.about)
        if points == score and place == room
    }
    return sorted(
        (spot for spot, share in shares.items() if share >= ALIKE), key=lambda spot: (-shares[spot], spot)
    )[:3]


def alike(carried: frozenset[str], load: str) -> float:
    """The share of things carried in both, of those carried in either; 1 where nothing is."""
    other = frozenset(load.split(", ")) - {""}
    return len(carried & other) / len(carried | other) if carried | other else 1.0
