"""Cases are revised before they are replayed, and replayed in a closed loop: by hand, in the house."""

from __future__ import annotations

import random

import pytest
from explorer_parts import GAME, House, act, case_at, explorer, force, memory_after, play, texts

from cbr_explorer.archive import ANYWHERE, Step
from cbr_explorer.following import Here, alike, go_on, mend
from cbr_explorer.memory import GameMemory
from cbr_explorer.revision import Plan, _joint, graft, shorten
from cbr_explorer.scene import Scene, read_scene
from cbrcore.types import Observation

RNG = random.Random(0)
RING = ["east", "ring bell"]
CHEST = ["take lamp", "east", "down", "open chest"]


def solution(memory: GameMemory, *commands: str) -> tuple[int, list[Step]]:
    """(the case behind these commands, its own solution)"""
    number = case_at(memory, *commands)
    return number, memory.archive.steps(memory.archive.cases[number].node)


# -- shorten -----------------------------------------------------------------------------------------------------


def test_the_longest_loop_is_left_out_first_then_the_next_each_once():
    commands = ["take lamp", "east", "west", "drop lamp", "east", "down"]
    memory = memory_after(commands)
    number, steps = solution(memory, *commands)
    found = [shorten(memory, number, steps, RNG) for _ in range(8)]
    left = [texts(memory, plan.steps) for plan in found if plan is not None]
    assert left[0] == ["east", "down"]
    assert ["drop lamp", "east", "down"] in left, "the loop to the kitchen, with the lamp"
    assert left == sorted(left, key=len)
    assert len(left) == len({tuple(each) for each in left})
    assert found[0].how == "without 4 of its commands"
    assert found[-1] is None


def test_two_places_that_are_not_known_are_no_loop_and_no_place_to_meet():
    memory = memory_after(["take lamp", "east"])
    number, _ = solution(memory, "take lamp", "east")
    steps = [Step(0, 0, 0), Step(1, ANYWHERE, ANYWHERE), Step(2, ANYWHERE, ANYWHERE)]
    assert shorten(memory, number, steps, RNG) is None
    assert _joint(steps[1:], steps[1:]) is None
    assert _joint(steps, steps) == (0, 0)


def test_a_loop_that_earned_something_stays():
    memory = memory_after(["east", "ring bell", "west"])
    number, steps = solution(memory, "east", "ring bell", "west")
    found = [shorten(memory, number, steps, RNG) for _ in range(3)]
    assert [plan and texts(memory, plan.steps) for plan in found] == [None, None, None]


def test_a_shortened_case_is_retained_as_a_shorter_one():
    """Whatever else is explored, the loop in the hall falls out of the best case."""
    policy, house = explorer(revise=("shorten",), revise_share=1.0, epsilon=0.0), House(max_steps=12)
    force(policy, house, ["sing", "east", "west", "sing", *CHEST])
    memory = policy.memory(GAME)
    before = memory.archive.depth(memory.archive.best[1])
    for _ in range(60):
        play(policy, house)
    assert before == 8
    assert memory.archive.best[0] >= 5
    load = memory.archive.loads.get("a lamp", -1)
    room = memory.archive.rooms.get("cellar", -1)
    assert memory.archive.length(memory.archive.cells[5.0, load, room]) == 4


# -- graft -------------------------------------------------------------------------------------------------------


def test_the_detour_to_a_reward_of_another_case_is_put_in_and_back():
    """The other case rang the bell in the kitchen, where this one passes, too."""
    memory = memory_after(CHEST, RING)
    number, steps = solution(memory, *CHEST)
    plan = graft(memory, number, steps, RNG)
    assert plan is not None
    assert texts(memory, plan.steps) == ["take lamp", "east", "ring bell", "down", "open chest"]
    assert plan.how == "with the detour to 'ring bell'"
    assert graft(memory, number, steps, RNG) is None, "each is tried once"


def test_the_way_back_is_that_of_the_map():
    """The chest is grafted into a case that stays in the kitchen: down, open it, and up again."""
    memory = memory_after(["take lamp", "east", "ring bell"], [*CHEST, "up"])
    number, steps = solution(memory, "take lamp", "east", "ring bell")
    plan = graft(memory, number, steps, RNG)
    assert plan is not None
    assert texts(memory, plan.steps) == ["take lamp", "east", "down", "open chest", "up", "ring bell"]


def test_without_a_way_back_nothing_is_grafted():
    memory = memory_after(["take lamp", "east", "ring bell"], CHEST)
    assert graft(memory, *solution(memory, "take lamp", "east", "ring bell"), RNG) is None


def test_a_grafted_case_earns_both_rewards():
    policy, house = explorer(revise=("graft",), revise_share=1.0, epsilon=0.0), House(max_steps=6)
    force(policy, house, CHEST)
    force(policy, house, RING)
    for _ in range(20):
        play(policy, house)
    assert policy.memory(GAME).archive.best[0] == 6


# -- the closed loop ---------------------------------------------------------------------------------------------


def plan_of(*steps: tuple[int, int, int], earns: tuple[int, ...] = ()) -> Plan:
    return Plan(0, [Step(*step, at in earns) for at, step in enumerate(steps)])


@pytest.mark.parametrize(
    ("view", "room", "offered", "earns", "at"),
    [
        (10, 1, {5, 6, 7}, (), 0),  # as the case says
        (12, 2, {5, 6, 7}, (), 2),  # this view comes later: what lies between is left out
        (12, 2, {5, 6, 7}, (1,), None),  # ... but no reward
        (99, 1, {5, 6, 7}, (), 0),  # another view of the same room
        (99, 1, {6, 7}, (), None),  # ... where the command is not offered
        (99, 2, {5, 6, 7}, (), None),  # the room of a later step
        (10, 1, {7}, (), None),
    ],
)
def test_where_a_solution_goes_on(view, room, offered, earns, at):
    plan = plan_of((5, 10, 1), (6, 11, 2), (7, 12, 2), earns=earns)
    assert go_on(plan, here(view, room, offered)) == (at is not None)
    assert plan.at == (at or 0)


def here(view: int, room: int, offered: set[int], score: float = 0.0) -> Here:
    return Here(Scene("", "", "", frozenset()), score, view, room, offered)


def test_a_solution_that_is_over_does_not_go_on():
    assert not go_on(Plan(0, []), here(0, 0, {0}))


@pytest.mark.parametrize(("room", "offered", "at"), [(2, {6, 7}, 1), (2, {7}, 2), (3, {5, 6, 7}, None)])
def test_where_no_view_is_known_a_later_step_in_this_room_is_next(room, offered, at):
    plan = plan_of((5, 10, 1), (6, 11, 2), (7, 12, 2))
    assert mend(memory_after(), plan, here(99, room, offered)) == (at is not None)
    assert plan.over if at is None else plan.at == at


class Elsewhere:
    """In the kitchen, while a case says that one should be in the hall: as a memory sees it."""

    def __init__(self, memory: GameMemory, *before: str) -> None:
        house = House()
        house.reset()
        for command in (*before, "east"):
            seen = house.step(act(command)).observation
        self.memory, self.scene, self.score = memory, read_scene(seen), seen.score
        self.offered = {memory.archive.commands.get(each.text, -2) for each in seen.admissible}

    def mended(self, number: int, **changes) -> list[str] | None:
        """The way to a case from here, if there is one; with changes of the scene or the score."""
        score, scene = changes.pop("score", self.score), self.scene._replace(**changes)
        archive, plan = self.memory.archive, Plan(number, [Step(0, 0, 0)])
        view, room = archive.views.get(scene.view, -2), archive.rooms.get(scene.room, -2)
        found = mend(self.memory, plan, Here(scene, score, view, room, self.offered))
        return texts(self.memory, plan.steps) if found else None


def test_from_a_view_that_is_known_another_way_is_looked_up():
    """In the kitchen without the lamp: the way to the chest leads through the hall again."""
    memory = memory_after(CHEST, ["east", "west", "take lamp"])
    assert Elsewhere(memory).mended(case_at(memory, *CHEST)) == ["west", *CHEST]
    assert Elsewhere(memory, "take lamp").mended(case_at(memory, *CHEST)) == ["down", "open chest"]


def test_from_a_view_that_is_like_a_known_one_too():
    memory = memory_after(CHEST)
    elsewhere, number = Elsewhere(memory, "take lamp"), case_at(memory, *CHEST)
    other = {"view": "the kitchen after an earthquake"}
    assert elsewhere.mended(number, **other) == ["down", "open chest"]
    assert elsewhere.mended(number, **other, carried=frozenset({"egg", "rug"})) is None
    assert elsewhere.mended(number, **other, room="attic") is None
    assert elsewhere.mended(number, **other, score=3.0) is None


def test_no_way_is_taken_whose_first_command_is_not_offered():
    memory = memory_after(CHEST)
    elsewhere = Elsewhere(memory, "take lamp")
    elsewhere.offered.discard(memory.archive.commands.get("down", -2))
    assert elsewhere.mended(case_at(memory, *CHEST)) is None


def test_alike_is_the_share_of_things_carried_in_both():
    assert alike(frozenset({"lamp", "egg"}), "egg, rug") == pytest.approx(1 / 3)
    assert alike(frozenset(), "") == 1
    assert alike(frozenset({"lamp"}), "") == 0


def test_at_test_time_the_best_case_is_replayed_and_mended_where_the_world_differs():
    """Begun in the kitchen, where no case begins: another way leads to the same case."""
    policy, house = explorer(), House(max_steps=8)
    force(policy, house, ["east", "west", "take lamp"])
    force(policy, house, [*CHEST, "up", "ring bell", "sing", "sing"])
    kept = policy.state()
    given, seen, why = play(policy, house, learning=False)
    assert given[:6] == [*CHEST, "up", "ring bell"]
    assert seen.score == 6
    assert why[0] == "replays (6 points, 8 commands; 1 of 8)"
    given, seen, why = play(policy, Moved(max_steps=9), learning=False)
    assert given[:5] == ["west", *CHEST]
    assert seen.score == 6
    assert "by another way; 1 of " in why[0]
    assert policy.state() == kept, "nothing is learned"


class Moved(House):
    """Begins in the kitchen."""

    def reset(self, game: str = GAME, seed: int = 0) -> Observation:
        super().reset(game, seed)
        return self.step(act("east")).observation
