"""What is news, what is expected of a command, and which case is retrieved: by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from explorer_parts import GAME, House, case_at, explorer, force, memory_after

from cbr_explorer.config import ExplorerConfig
from cbr_explorer.news import FIRST, LOST, News
from cbr_explorer.retrieval import RETRIEVALS, promise

NOTHING = {"room": [], "thing": [], "command": [], "sentence": [], "load": [], "view": []}
HERE, THERE, BEYOND = 0, 1, 2
PUSH, GO = 10, 11


def news(**settings) -> News:
    return News(ExplorerConfig(**settings))


# -- news --------------------------------------------------------------------------------------------------------


def test_each_thing_is_news_once_and_weighs_by_its_kind():
    found = news(news=tuple(NOTHING))
    assert found.take(NOTHING | {"sentence": [1], "view": ["a"]}) == pytest.approx(0.25)
    assert found.take(NOTHING | {"sentence": [1], "view": ["a"]}) == 0
    assert found.take(NOTHING | {"sentence": [1, 2], "load": ["x"]}) == pytest.approx(0.3)
    assert found.take(NOTHING | {"thing": ["lamp"]}) == pytest.approx(0.6)


def test_three_of_a_kind_count_and_there_is_no_more_than_one():
    assert news(news=("load",)).take(NOTHING | {"load": list("abcde")}) == pytest.approx(0.3)
    assert news().take(NOTHING | {"room": ["hall"], "thing": ["lamp"]}) == 1


def test_only_the_kinds_of_the_setting_are_news():
    found = news(news=("room",))
    assert found.take(NOTHING | {"thing": ["lamp"], "sentence": [1]}) == 0
    assert found.take(NOTHING | {"room": ["hall"]}) == 1


def test_a_reward_is_news_until_a_greater_one_comes():
    found = news()
    assert [found.earns(HERE, PUSH, reward) for reward in (1, 1, 2, 1)] == [True, False, True, False]
    assert found.earns(THERE, PUSH, 1)


# -- what is expected --------------------------------------------------------------------------------------------


def test_expectations_back_off_from_room_to_command_to_template():
    """By hand, from 0.3 each: the template moves a fifth of the way to 1, as the command does; the room half."""
    found = news()
    assert found.expected(HERE, PUSH, "push {}") == FIRST
    found.learn(0, HERE, PUSH, "push {}", 1.0)
    assert found.expected(HERE, PUSH, "push {}") == pytest.approx(0.65)
    assert found.expected(THERE, PUSH, "push {}") == pytest.approx(0.44)
    assert found.expected(THERE, 12, "push {}") == pytest.approx(0.44)
    assert found.expected(THERE, 12, "pull {}") == FIRST


def test_a_level_learns_only_from_what_is_new_one_level_finer():
    """The command was new once, as was the pair with the room: other views of the room speak of it alone."""
    found = news()
    for view in range(4):
        found.learn(view, HERE, PUSH, "push {}", 0.0)
    assert found.expected(HERE, PUSH, "push {}") == pytest.approx(0.3 / 2**4)
    assert found.expected(THERE, PUSH, "push {}") == pytest.approx(0.24)
    assert found.expected(THERE, 12, "push {}") == pytest.approx(0.24)


def test_the_same_view_says_nothing_more_unless_there_is_news():
    found = news()
    found.learn(0, HERE, PUSH, "push {}", 0.0)
    found.lead(0, PUSH, 0)
    found.learn(0, HERE, PUSH, "push {}", 0.0)
    assert found.expected(HERE, PUSH, "push {}") == pytest.approx(0.15)
    found.learn(0, HERE, PUSH, "push {}", 1.0)
    assert found.expected(HERE, PUSH, "push {}") == pytest.approx(0.575)


# -- what a command is worth -------------------------------------------------------------------------------------


def test_a_command_loses_its_value_where_it_was_tried():
    found = news(stale=0.2)
    assert found.worth(0, HERE, PUSH, "push {}") == FIRST
    found.lead(0, PUSH, 0)
    assert found.worth(0, HERE, PUSH, "push {}") == pytest.approx(0.06)
    found.lead(0, PUSH, 0)
    assert found.worth(0, HERE, PUSH, "push {}") == pytest.approx(0.012)
    assert found.worth(5, HERE, PUSH, "push {}") == FIRST


def test_what_lies_behind_a_command_counts_at_a_discount():
    """View 0 -go-> view 1 -go-> view 2, where something was never tried."""
    found = news(gamma=0.5)
    found.look(2, BEYOND, [0.8], [])
    found.lead(1, GO, 2)
    found.look(1, THERE, [found.worth(1, THERE, GO, "go")], [])
    assert found.value(1) == pytest.approx(0.4)
    found.lead(0, GO, 1)
    assert found.worth(0, HERE, GO, "go") == pytest.approx(0.2)


def test_where_an_episode_is_cut_off_less_lies_ahead():
    found = news(gamma=0.5)
    found.look(1, THERE, [0.8], [])
    found.cut_off(1)
    assert found.value(1) == pytest.approx(0.4)


def test_where_a_command_was_not_tried_in_a_view_the_map_of_rooms_tells_what_lies_ahead():
    found = news(gamma=0.9)
    found.learn(0, HERE, GO, "go", 0.0)
    found.go(HERE, GO, THERE)
    found.look(1, THERE, [0.0], [(PUSH, "push {}")])
    assert found.worth(7, HERE, GO, "go") == pytest.approx(0.9 * FIRST)
    found.go(HERE, GO, HERE)
    assert found.worth(7, HERE, GO, "go") == pytest.approx(0.15), "it leads nowhere now"


def test_what_was_lost_in_a_view_is_worth_nothing_there():
    found = news()
    found.lead(0, GO, LOST)
    assert found.worth(0, HERE, GO, "go") == 0
    assert found.worth(1, HERE, GO, "go") == FIRST


def test_the_way_back_by_the_map():
    found = news()
    for room, command, after in ((HERE, 1, THERE), (THERE, 2, BEYOND), (BEYOND, 3, THERE), (THERE, 4, HERE)):
        found.go(room, command, after)
    assert found.back(THERE, 2, HERE) == [3, 4]
    assert found.back(HERE, 1, THERE) == []
    assert found.back(HERE, 1, 9) is None


# -- retrieve ----------------------------------------------------------------------------------------------------

RING, LAMP = ["east", "ring bell"], ["take lamp", "east"]


def drawn(retrieval: str, *episodes, times: int = 4000, **settings) -> Counter[int | None]:
    memory, rng = memory_after(*episodes), random.Random(0)
    config = ExplorerConfig(retrieval=retrieval, **settings)
    return Counter(RETRIEVALS[retrieval](memory, config, rng) for _ in range(times))


def test_a_level_of_score_weighs_by_its_rank_and_its_share():
    """Two levels: 1 + 1/2 for the best, 1/2 + 1/2 for the other."""
    memory = memory_after(RING, LAMP)
    found = drawn("score_novelty", RING, LAMP, score_decay=0.5)
    assert found[case_at(memory, *RING)] / found.total() == pytest.approx(0.6, abs=0.03)


def test_promise_by_hand():
    """V of a view that was never looked at is 0.3; the lamp is one thing; two commands lead there."""
    memory = memory_after(LAMP)
    case = memory.archive.cases[case_at(memory, *LAMP)]
    cell = (0.0, case.load, case.room)
    assert promise(memory, cell) == pytest.approx(0.31 * 2**0.5)
    memory.horizon = 8
    assert promise(memory, cell) == pytest.approx(0.31 * 2**0.5 * 0.75)
    memory.counts.cells[cell] = 1
    assert promise(memory, cell) == pytest.approx(0.31 * 2**0.5 * 0.75 / 2**0.5)
    memory.counts.loads[cell[:2]] = 3
    assert promise(memory, cell) == pytest.approx(0.31 * 2**0.5 * 0.75 / 8**0.5)
    memory.horizon = 2
    assert promise(memory, cell) == pytest.approx(0.31 * 2**0.5 * 0.01 / 8**0.5)


def test_the_horizon_is_where_episodes_were_cut_off():
    policy = explorer()
    force(policy, House(max_steps=3), ["sing", "sing"])
    assert policy.memory(GAME).horizon is None
    for steps in (3, 5, 4):
        force(policy, House(max_steps=steps), ["sing"] * steps)
    assert policy.memory(GAME).horizon == 5


def test_what_was_chosen_is_counted_and_the_others_catch_up():
    memory, rng = memory_after(LAMP), random.Random(0)
    for _ in range(300):
        RETRIEVALS["score_novelty"](memory, ExplorerConfig(), rng)
    assert sum(memory.counts.cells.values()) == sum(memory.counts.loads.values()) == 300
    assert min(memory.counts.cells.values()) > 30


def test_uniform_and_last():
    memory = memory_after(RING, LAMP)
    found = drawn("uniform", RING, LAMP)
    assert set(found) == set(memory.archive.cells.values())
    assert min(found.values()) > 0.8 * max(found.values())
    assert set(drawn("last", RING, LAMP)) == {case_at(memory, *LAMP)}


def test_without_cases_nothing_is_retrieved():
    assert {
        name: draw(memory_after(), ExplorerConfig(), random.Random(0)) for name, draw in RETRIEVALS.items()
    } == (dict.fromkeys(RETRIEVALS))
