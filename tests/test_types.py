"""Actions, state graphs and endings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbrcore.types import Action, Ending, Episode, Observation, StateGraph, arity, fill

NAME = st.text("abc xyz", min_size=1, max_size=8)


def test_template_is_filled_from_left_to_right():
    action = Action.from_template("put {} on {}", ["apple", "shelf"])
    assert action.text == "put apple on shelf"
    assert action.entities == action.seeds == ("apple", "shelf")


def test_seeds_may_differ_from_the_entities():
    assert Action.from_template("go east", [], seeds=["player"]).seeds == ("player",)


@given(st.lists(NAME, max_size=3), st.integers(0, 3))
def test_fill_refuses_any_wrong_number_of_entities(names, slots):
    template = "do " + " to ".join(["{}"] * slots)
    assert arity(template) == slots
    if slots == len(names):
        assert fill(template, names) == "do " + " to ".join(names)
    else:
        with pytest.raises(ValueError, match=f"takes {slots} entities"):
            fill(template, names)


@given(st.lists(st.tuples(NAME, NAME, NAME), max_size=6), st.lists(NAME, max_size=3), st.randoms())
def test_equal_facts_give_equal_graphs_whatever_their_order_and_number(triples, nodes, rng):
    shuffled = triples * 2
    rng.shuffle(shuffled)
    graph, again = StateGraph.of(triples, nodes), StateGraph.of(shuffled, nodes[::-1])
    assert graph == again
    assert hash(graph) == hash(again)
    assert set(nodes) <= set(graph.nodes)
    assert [graph.nodes[row] for row in graph.index.values()] == list(graph.index)


def test_time_limit_is_not_an_ending_of_the_game():
    assert {ending for ending in Ending if ending.terminal} == {Ending.WON, Ending.LOST, Ending.NO_ACTIONS}


def test_observation_text_joins_the_parts_and_does_not_repeat_the_description():
    def text(feedback: str) -> str:
        return Observation(
            feedback, "A room.", "You carry nothing.", (), StateGraph(()), scored=("put a on b",)
        ).text

    assert text("Taken.\n\n") == "Taken.\nA room.\nYou carry nothing.\nput a on b"
    assert text("A room.\n") == "A room.\nYou carry nothing.\nput a on b"


def test_an_episode_of_which_nothing_was_seen_has_no_points_and_no_ending():
    nothing = Episode("cup", 1)
    assert (nothing.score, nothing.steps, nothing.norm_score, nothing.ending) == (0.0, 0, None, None)
