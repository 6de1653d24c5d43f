"""`needed`: of the last steps those that the reward needed. The examples are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbr_retain.config import NeededConfig
from cbr_retain.needed import Needed, Step, without_loops
from cbrcore import Action, Build
from cbrcore.interfaces import Places, RetainItem
from cbrcore.testing import RetainPolicySuite
from cbrcore.types import Fingerprint, Observation, StateGraph


class TestNeededContract(RetainPolicySuite):
    def make(self, build: Build) -> Needed:
        return Needed(NeededConfig(), build)


class TestNeededOfAllContract(RetainPolicySuite):
    def make(self, build: Build) -> Needed:
        return Needed(NeededConfig(k=9), build)


def act(command: str, *entities: str, seeds: tuple[str, ...] | None = None) -> Action:
    return Action(command, command, entities, entities if seeds is None else seeds)


LOOK, NORTH, SOUTH, WEST, EAST = (
    act(word, seeds=("you", "here")) for word in ("look", "north", "south", "west", "east")
)
TAKE_LANTERN, DROP_LANTERN = act("take lantern", "lantern"), act("put down lantern", "lantern")
TAKE_SWORD, DROP_SWORD = act("take sword", "sword"), act("put down sword", "sword")
OPEN_CASE, SWORD_IN_CASE = act("open case", "case"), act("put sword in case", "sword", "case")

Offers = dict[str, tuple[Action, ...]]


def seen(world: str, offers: Offers, number: int) -> Observation:
    """In a world, whose first word is the player's room, and what stands before a ";" the view; time goes on, so
    that no state comes again."""
    mark = Fingerprint(f"{world}, turn {number}", world, world.partition(";")[0])
    return Observation("", "", "", offers.get(world, ()), StateGraph.of([]), fingerprint=mark)


def way(start: str, *steps: tuple[Action, str], offers: Offers | None = None) -> list[RetainItem]:
    """An episode from a world on: each step with the world that it leads to; the last one is rewarded."""
    worlds = [start, *(world for _, world in steps)]
    around = pairwise([seen(world, offers or {}, number) for number, world in enumerate(worlds)])
    return [
        RetainItem(None, action, number, float(number == len(steps) - 1), before=before, after=after)
        for number, ((action, _), (before, after)) in enumerate(zip(steps, around, strict=True))
    ]


def places(observation: Observation) -> Places:
    return Places(observation.fingerprint.world.split()[0], {}, {})


def left(items: Sequence[RetainItem]) -> list[int]:
    """The steps that are part of no loop; none of them went to another room."""
    return [step.item.step for step in without_loops([Step(item, moved=False) for item in items])]


def select(items: Sequence[RetainItem], *, k: int = 9, build: Build | None = None) -> list[str]:
    policy = Needed(NeededConfig(k=k), build or Build(places=places))
    return [item.action.text for item in policy.select(items, np.random.default_rng(0))]


# -- by hand ---------------------------------------------------------------------------------------------------


def test_what_was_taken_and_put_down_again_is_not_retained():
    """Lantern and sword lie on the floor: after four steps the world is that of before, so all four are a loop."""
    items = way(
        "living both lie",
        (TAKE_LANTERN, "living lantern held"),
        (DROP_LANTERN, "living both lie"),
        (TAKE_SWORD, "living sword held"),
        (DROP_SWORD, "living both lie"),
        (OPEN_CASE, "living case open"),
    )
    assert select(items) == ["open case"]
    assert select(items, k=3) == ["open case"]  # take sword, put down sword: the loop that is within sight
    assert select(items, k=2) == ["open case"]  # put down sword alone changed the world, but not for the case


def test_a_first_time_that_leaves_a_trace_is_no_loop_but_served_nothing():
    """The lantern was on the case and lies on the floor now. Nothing that was rewarded has to do with it."""
    items = way(
        "living lantern on case, sword hangs",
        (TAKE_LANTERN, "living lantern held, sword hangs"),
        (DROP_LANTERN, "living lantern lies, sword hangs"),
        (TAKE_SWORD, "living lantern lies, sword held"),
        (SWORD_IN_CASE, "living lantern lies, sword in case"),
    )
    assert select(items) == ["take sword", "put sword in case"]


def test_a_whole_way_by_hand():
    """take sword: names what is put in the case. north: the way to the room of the case. look: changed nothing.
    east, west: back again. push button: made the command possible, though it names nothing of it. wave wand:
    changed the world, but served nothing. The lantern: taken and put back."""
    wave, push = act("wave wand", "wand"), act("push button", "button")
    items = way(
        "living start",
        (TAKE_LANTERN, "living lantern held"),
        (DROP_LANTERN, "living start"),
        (TAKE_SWORD, "living sword held"),
        (NORTH, "hall"),
        (LOOK, "hall"),
        (EAST, "closet"),
        (WEST, "hall"),
        (wave, "hall glows"),
        (push, "hall glows, case open"),
        (SWORD_IN_CASE, "hall glows, done"),
        offers={"hall glows, case open": (SWORD_IN_CASE,)},
    )
    assert select(items, k=10) == ["take sword", "north", "push button", "put sword in case"]
    assert select(items, k=4) == [
        "west",
        "push button",
        "put sword in case",
    ]  # where it had come from is out of sight
    assert select(items, k=1) == ["put sword in case"]


def test_the_way_is_kept_without_its_detours():
    items = way("attic", (WEST, "hall"), (SOUTH, "yard"), (NORTH, "hall"), (WEST, "den"), (OPEN_CASE, "den open"))
    assert select(items) == ["west", "west", "open case"]


def test_a_detour_into_a_new_room_is_one_though_the_game_notes_the_visit():
    """The world is another one, since the closet was visited; the view is the same. What was done there counts."""
    chest, jade = act("open chest", "chest"), act("take jade", "jade")
    offers = dict.fromkeys(("hall open", "hall open;visited", "hall open;visited, lit"), (jade,))
    to_the_closet = ("hall", (chest, "hall open"), (EAST, "closet"))
    items = way(*to_the_closet, (WEST, "hall open;visited"), (jade, "hall rich"), offers=offers)
    assert select(items) == ["open chest", "take jade"]
    lit = (act("press switch"), "closet lit")
    items = way(*to_the_closet, lit, (WEST, "hall open;visited, lit"), (jade, "hall rich"), offers=offers)
    assert select(items) == ["open chest", "east", "west", "take jade"]  # a switch for all that is known


def test_that_a_command_is_admissible_again_where_it_was_does_not_hide_what_made_it_so():
    """open chest makes "take jade" admissible, going away and coming back with the tongs does so again."""
    chest, jade = act("open chest", "chest"), act("take jade with tongs", "jade", "tongs")
    tongs = act("take tongs", "tongs")
    offers = dict.fromkeys(("hall open", "hall open, tongs"), (jade,))
    steps = [
        (chest, "hall open"),
        (EAST, "closet"),
        (tongs, "closet tongs"),
        (WEST, "hall open, tongs"),
        (jade, "x"),
    ]
    assert select(way("hall", *steps, offers=offers)) == [action.text for action, _ in steps]


def test_the_longest_loop_goes_first():
    """a b a c a: b and c are loops of two, but the whole is one of four; and of a b c a b the earlier of two."""
    steps = [act(str(number)) for number in range(5)]
    worlds = ["b", "a", "c", "a", "d"]
    assert left(way("a", *zip(steps, worlds, strict=True))) == [4]
    items = way("a", *zip(steps[:4], ["b", "c", "a", "b"], strict=True))
    assert left(items) == [3]


def test_the_last_step_that_made_a_command_admissible_is_the_one_that_counts():
    """push opens the hatch, pull closes it, kick opens it again in another way."""
    push, pull, kick, down = (act(word) for word in ("push", "pull", "kick", "down"))
    offers = {"room open": (down,), "room kicked open": (down,)}
    items = way(
        "room",
        (push, "room open"),
        (pull, "room shut anew"),
        (kick, "room kicked open"),
        (down, "cellar"),
        offers=offers,
    )
    assert select(items) == ["kick", "down"]


def test_a_command_that_becomes_admissible_again_later_was_made_so_by_an_earlier_step():
    """push allows turn, turn takes that away, kick allows turn again, and coin for the first time."""
    push, turn, kick, coin = act("push"), act("turn wheel", "wheel"), act("kick", "wheel"), act("coin")
    offers = {"room pushed": (turn,), "room kicked": (turn, coin)}
    items = way(
        "room", (push, "room pushed"), (turn, "room turned"), (kick, "room kicked"), (coin, "x"), offers=offers
    )
    assert select(items) == ["push", "turn wheel", "kick", "coin"]


def test_what_was_possible_all_the_time_was_not_made_possible():
    offers = dict.fromkeys(("room", "room glows"), (OPEN_CASE,))
    assert select(way("room", (act("wave"), "room glows"), (OPEN_CASE, "room open"), offers=offers)) == [
        "open case"
    ]


def test_what_serves_a_kept_step_is_kept_in_turn():
    """take key -> unlock chest (key) -> open chest (chest) -> take coin (made admissible)."""
    take, unlock = act("take key", "key"), act("unlock chest with key", "chest", "key")
    opened, coin = act("open chest", "chest"), act("take coin", "coin")
    items = way(
        "room",
        (take, "room key"),
        (TAKE_LANTERN, "room key, lantern"),
        (unlock, "room unlocked"),
        (opened, "room open"),
        (coin, "room rich"),
        offers={"room open": (coin,)},
    )
    assert select(items) == ["take key", "unlock chest with key", "open chest", "take coin"]


def test_a_thing_of_two_names_is_one_by_its_node():
    lamp, lantern = act("take lamp", "lamp", seeds=("brass lantern",)), act("light lantern", "lantern")
    rewarded = replace(lantern, seeds=("brass lantern",))
    assert select(way("a", (lamp, "a lamp"), (rewarded, "a light"))) == ["take lamp", "light lantern"]
    assert select(way("a", (lamp, "a lamp"), (lantern, "a light"))) == ["light lantern"]


def test_an_action_on_nothing_has_to_do_with_no_other():
    """Its seeds are the player and the room, which all such actions have."""
    assert select(way("a", (act("wave", seeds=("you", "a")), "a glows"), (LOOK, "a seen"))) == ["look"]


def test_the_rewarded_step_is_kept_though_it_changed_nothing_or_led_back():
    assert select(way("a", (WEST, "b"), (EAST, "a"))) == ["west", "east"]
    assert select(way("a", (LOOK, "a"))) == ["look"]


# -- games that tell less --------------------------------------------------------------------------------------


def test_without_a_map_a_step_on_nothing_goes_somewhere():
    items = way("a", (WEST, "b"), (TAKE_LANTERN, "b held"), (LOOK, "b held"), (OPEN_CASE, "b open"))
    assert select(items, build=Build()) == ["west", "open case"]


def test_without_fingerprints_the_state_graph_and_the_commands_tell_worlds_apart():
    def told(where: str, *offered: Action) -> Observation:
        return Observation("", "", "", offered, StateGraph.of([("sword", "in", where)]))

    floor, held, offered = told("room"), told("you"), told("room", OPEN_CASE)
    items = [
        RetainItem(None, TAKE_SWORD, 0, 0.0, before=floor, after=held),
        RetainItem(None, DROP_SWORD, 1, 0.0, before=held, after=floor),
        RetainItem(None, act("wave wand", "wand"), 2, 0.0, before=floor, after=floor),
        RetainItem(None, act("push button", "button"), 3, 0.0, before=floor, after=offered),
        RetainItem(None, OPEN_CASE, 4, 1.0, before=offered, after=offered),
    ]
    assert left(items[:1]) == [0]  # another graph
    assert left(items) == [3]  # here the rewarded one is a step as any other
    assert select(items, build=Build()) == ["push button", "open case"]


def test_without_fingerprints_a_walk_back_is_told_by_description_and_commands():
    def told(room: str, known: str, *offered: Action) -> Observation:
        return Observation("", room, "", offered, StateGraph.of([("you", "in", room)], [known]))

    start, hall, back = told("a den", "den"), told("a hall", "den, hall"), told("a den", "den, hall")
    walk = [
        RetainItem(None, WEST, 0, 0.0, before=start, after=hall),
        RetainItem(None, EAST, 1, 0.0, before=hall, after=back),
    ]
    rewarded = RetainItem(None, OPEN_CASE, 2, 1.0, before=back, after=back)
    assert select([*walk, rewarded], build=Build()) == ["open case"]
    other = replace(walk[1], after=told("a den", "den, hall", OPEN_CASE))
    assert select([walk[0], other, rewarded], build=Build()) == ["west", "east", "open case"]
    other = replace(walk[1], after=told("a garden", "den, hall"))
    assert select([walk[0], other, rewarded], build=Build()) == ["west", "east", "open case"]


def test_a_state_with_and_one_without_a_fingerprint_are_never_one_world():
    first, *_ = way("a", (TAKE_SWORD, "a"), (SWORD_IN_CASE, "a done"))
    assert left([first]) == []
    assert left([replace(first, after=replace(first.after, fingerprint=None))]) == [0]


def test_where_nothing_was_noted_the_entities_alone_tell():
    items = way("a", (TAKE_LANTERN, "a"), (TAKE_SWORD, "a"), (NORTH, "b"), (SWORD_IN_CASE, "c"))
    blind = [replace(item, before=None, after=None) for item in items]
    assert select(blind) == select(blind, build=Build()) == ["take sword", "put sword in case"]


# -- any way ---------------------------------------------------------------------------------------------------


def loops_cut_slowly(worlds: list[int], steps: list[int]) -> list[int]:
    """The same on bare numbers: of all pairs of equal worlds the one furthest apart, and again from the start.
    worlds[i] is that before steps[i]; the last one is that after the last step."""
    for length in range(len(steps), 0, -1):
        for start in range(len(steps) - length + 1):
            if worlds[start] == worlds[start + length]:
                return loops_cut_slowly(
                    worlds[:start] + worlds[start + length :], steps[:start] + steps[start + length :]
                )
    return steps


@given(st.lists(st.integers(0, 4), min_size=2, max_size=9))
def test_any_way_loses_its_loops_and_stays_a_way(worlds):
    steps = [(act(str(number)), str(world)) for number, world in enumerate(worlds[1:])]
    items = way(str(worlds[0]), *steps)
    places = left(items)
    assert places == loops_cut_slowly(worlds, list(range(len(steps))))
    there = [items[place] for place in places]
    assert all(a.after.fingerprint.world == b.before.fingerprint.world for a, b in pairwise(there))
    assert len({item.before.fingerprint.world for item in there}) == len(there)
    assert bool(places) == (worlds[0] != worlds[-1])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=8), st.integers(1, 9))
def test_at_most_k_oldest_first_the_rewarded_one_last(steps, k):
    items = way("0", *((act(f"touch {name}", name), str(world)) for name, world in steps))
    chosen = Needed(NeededConfig(k=k), Build(places=places)).select(items, np.random.default_rng(0))
    numbers = [item.step for item in chosen]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == len(steps) - 1
    assert numbers[0] > len(steps) - 1 - k


@pytest.mark.parametrize("k", [0, -1])
def test_looking_back_not_at_all_is_refused(k):
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        NeededConfig(k=k)
