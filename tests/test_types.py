"""Actions, state graphs and endings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbrcore.types import (
    Action,
    Candidate,
    Case,
    Decision,
    Ending,
    Episode,
    Match,
    Observation,
    Provenance,
    StateGraph,
    StepResult,
    Transition,
    arity,
    fill,
)

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


LOOK = Action("look", "look")


def seen(score: float = 0.0, best: float | None = None, *, admissible=(LOOK,)) -> Observation:
    return Observation("", "", "", admissible, StateGraph(()), score, best)


def episode_of(*steps: tuple[Observation, Ending | None], opening: Observation | None = None) -> Episode:
    decision = Decision(LOOK, "agent")
    done = [Transition(seen(), decision, StepResult(after, 0.0, ending)) for after, ending in steps]
    return Episode("cup", 1, done, opening)


@pytest.mark.parametrize(
    ("episode", "score", "norm", "steps", "ending"),
    [
        (episode_of(opening=seen(3, 6)), 3, 0.5, 0, None),
        (episode_of(opening=seen(3, 6, admissible=())), 3, 0.5, 0, Ending.NO_ACTIONS),
        (episode_of((seen(1, 4), None), opening=seen(2, 4)), 1, 0.25, 1, None),
        (episode_of((seen(1, 4), None), (seen(4, 4), Ending.WON)), 4, 1.0, 2, Ending.WON),
        (episode_of((seen(1, 4), None), opening=seen(0, 4, admissible=())), 1, 0.25, 1, None),
        (episode_of((seen(-1, 4), Ending.LOST)), -1, -0.25, 1, Ending.LOST),
        (episode_of((seen(3, 1), Ending.TRUNCATED)), 3, 3.0, 1, Ending.TRUNCATED),
        (episode_of((seen(3, 0.5), Ending.ENGINE_ERROR)), 3, 6.0, 1, Ending.ENGINE_ERROR),
        (episode_of((seen(3, 0), None)), 3, None, 1, None),
        (episode_of((seen(3, -2), None)), 3, None, 1, None),
        (episode_of((seen(3, None), None)), 3, None, 1, None),
        (episode_of((seen(3, float("nan")), None)), 3, None, 1, None),
    ],
)
def test_an_episode_is_what_was_seen_last(episode: Episode, score, norm, steps, ending):
    assert (episode.score, episode.norm_score, episode.steps, episode.ending) == (score, norm, steps, ending)
    assert episode.last is (episode.transitions[-1].result.observation if steps else episode.opening)


def test_what_nobody_says_of_a_step_a_case_or_an_episode():
    case = Case(1, "take {}", ("cup",), "take cup", Provenance("cup", 1, 2, 3, 1.0))
    assert (case.rewarded, case.reused, case.last_step, case.seeds, case.reuse_rewarded) == (1, 0, 0, (), 0)
    assert Match(case, 0.5).against == 0.0
    observation = Observation("", "", "", (), StateGraph(()))
    assert (observation.score, observation.max_score, observation.steps, observation.game) == (0.0, None, 0, "")
    assert (observation.scored, observation.last_action) == ((), None)
    result = StepResult(observation, 1.0)
    assert (result.ending, result.rescored) == (None, False)
    decision = Decision(LOOK, "agent")
    assert (decision.candidates, decision.chosen, decision.agent_action) == ((), None, None)
    assert (decision.agent_probability, decision.value) == (0.0, 0.0)
    assert Transition(observation, decision, result).trace is None
    assert Episode("cup", 1).transitions is not Episode("cup", 1).transitions


def test_a_candidate_does_its_means_if_there_is_one():
    action, means = Action.from_template("take {}", ["cup"]), Action.from_template("go {}", ["east"])
    match = Match(Case(1, "take {}", ("cup",), "take cup", Provenance("cup", 1, 2, 3, 1.0)), 0.5)
    plain = Candidate(action, match, ("cup",), "admissible")
    assert (plain.executed, plain.means, plain.value, plain.why) == (action, None, None, "")
    assert Candidate(action, match, ("cup",), "pending", means).executed is means


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("a", "b", "c"), "a\nb\nc"),
        ((" a\n", "a ", "c"), "a\nc"),
        (("a", "b", "b"), "a\nb\nb"),
        (("a", "b", "a"), "a\nb\na"),
        (("", "", ""), ""),
        (("", "b", " "), "b"),
        (("a", "", ""), "a"),
    ],
)
def test_the_text_of_an_observation(parts, text: str):
    assert Observation(*parts, (), StateGraph(())).text == text
    assert Observation(*parts, (), StateGraph(()), scored=("x", "y")).text == f"{text}\nx\ny".lstrip()


def test_a_graph_keeps_facts_and_nodes_in_order():
    graph = StateGraph.of([("cup", "on", "table"), ("apple", "in", "cup"), ("cup", "on", "table")], ["zoo", "cup"])
    assert graph.triples == (("apple", "in", "cup"), ("cup", "on", "table"))
    assert graph.nodes == ("apple", "cup", "table", "zoo")
    assert graph.index == {"apple": 0, "cup": 1, "table": 2, "zoo": 3}
    assert StateGraph.of([]) == StateGraph(()) != StateGraph(("a",))
    assert hash(StateGraph(("a",))) != hash(StateGraph(("a",), (("a", "b", "a"),)))


@pytest.mark.parametrize(
    ("template", "names", "said"),
    [
        ("go", ["east"], "template 'go' takes 0 entities, got 1: ['east']"),
        ("put {} on {}", ["cup"], "template 'put {} on {}' takes 2 entities, got 1: ['cup']"),
    ],
)
def test_a_template_says_how_many_it_takes(template: str, names: list[str], said: str):
    with pytest.raises(ValueError, match=re.escape(said)):
        fill(template, names)
