"""Effects and ways, by examples that can be worked out by hand."""

from __future__ import annotations

import json

from parts import act

from cbr_goals.effects import Effect, Effects
from cbr_goals.ways import Way, room_of, unseen_exits, ways
from cbrcore.interfaces import Places

LOOK, OPEN = act("look"), act("open {}", "box")
TAKE_FROM, TAKE_HAT = act("take {} from {}", "cup", "table"), act("take {}", "hat")
PUT_CUP = [act("put {} on {}", "cup", place) for place in ("table", "shelf")]


def test_what_is_taken_can_be_put():
    learned = Effects()
    learned.note([LOOK, TAKE_FROM, TAKE_HAT], TAKE_FROM, [LOOK, TAKE_HAT, *PUT_CUP])
    assert learned.rows() == [(Effect("take {} from {}", 0, "put {} on {}", 0), 1, 1)]
    assert learned.enabling(["put {} on {}"], 0) == {"take {} from {}": {0}}


def test_a_place_is_not_enabled_by_the_object_that_leaves_it():
    """The cup can be put back on the table, but nothing else can because of it."""
    learned = Effects()
    learned.note([TAKE_FROM], TAKE_FROM, PUT_CUP)
    assert learned.enabling(["put {} on {}"], 1) == {}


def test_a_place_is_enabled_by_what_opens_it():
    learned = Effects()
    insert = act("insert {} into {}", "cup", "box")
    learned.note([OPEN], OPEN, [insert])
    learned.note([OPEN], OPEN, [LOOK])
    assert learned.rows() == [(Effect("open {}", 0, "insert {} into {}", 1), 1, 2)]
    assert learned.enabling(["insert {} into {}", "put {} on {}"], 1) == {"open {}": {0}}
    assert learned.enabling(["put {} on {}"], 1) == {}


def test_what_was_admissible_before_is_no_effect():
    learned = Effects()
    learned.note([TAKE_FROM, *PUT_CUP], TAKE_FROM, PUT_CUP)
    assert learned.rows() == []
    assert learned.executed == {"take {} from {}": 1}


def test_an_effect_counts_once_an_execution():
    learned = Effects()
    learned.note([], TAKE_HAT, [act("put {} on {}", "hat", place) for place in ("table", "shelf", "rack")])
    assert [count for _, count, _ in learned.rows()] == [1]


def test_effects_are_plain_data():
    learned, other = Effects(), Effects()
    learned.note([TAKE_FROM], TAKE_FROM, PUT_CUP)
    learned.note([OPEN], OPEN, [act("insert {} into {}", "cup", "box")])
    other.load_state(json.loads(json.dumps(learned.state())))
    assert (other.seen, other.executed) == (learned.seen, learned.executed)


HOUSE = Places(
    here="kitchen",
    exits={
        "kitchen": {"go east": "hall", "go west": None},
        "hall": {"go west": "kitchen", "go north": "bath", "go south": None},
        "bath": {"go south": "hall"},
        "cellar": {"go up": None},
    },
    where={"cup": "table", "table": "kitchen", "soap": "sink", "sink": "bath", "hat": "player", "ring": "nowhere"},
    holders=frozenset({"table", "sink"}),
)


def test_ways_are_the_shortest_ones():
    assert ways(HOUSE) == {"kitchen": Way(0), "hall": Way(1, "go east"), "bath": Way(2, "go east")}


def test_an_unseen_exit_is_as_far_as_its_room_and_a_move():
    assert unseen_exits(HOUSE, ways(HOUSE)) == [Way(1, "go west"), Way(2, "go east")]


def test_a_thing_is_in_the_room_of_what_holds_it():
    rooms = {thing: room_of(thing, HOUSE) for thing in HOUSE.where}
    assert rooms == {
        "cup": "kitchen", "table": "kitchen", "soap": "bath", "sink": "bath", "hat": "kitchen", "ring": None
    }  # fmt: skip


def test_things_within_each_other_are_nowhere():
    assert room_of("a", Places("hall", {"hall": {}}, {"a": "b", "b": "a"})) is None
