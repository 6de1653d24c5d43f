"""A way that is known is played from memory: as the engine would play it, and without asking it."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest
from jericho_play import open_game, players, say

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment, jericho
from cbr_jericho.transitions import Node, Transitions
from cbrcore.interfaces import Build
from cbrcore.types import Ending, Observation, StateGraph, StepResult

SIX = ("zork1", "detective", "pentari", "library", "ludicorp", "inhumane")
NOT_OFFERED = ("north. south", "quit", "dance " * 60, "say hello")


def play(environment: JerichoEnvironment, game: str, steps: int, *, choices: int = 3) -> list[object]:
    """What a random policy sees that often goes where it was: it takes one of a few actions, or of four commands
    that are not offered."""
    rng, seen, now = random.Random(0), [], environment.reset(game, 0)
    for _ in range(steps):
        if rng.random() < 0.1:
            result = say(environment, rng.choice(NOT_OFFERED))
        else:
            result = environment.step(rng.choice(now.admissible[:choices]))
        seen.append(result)
        now = result.observation
        if result.ending is not None:
            now = environment.reset(game, 0)
            seen.append(now)
    return seen


def compare(games_dir: Path, cache_dir: Path, game: str, steps: int, most: int) -> tuple[int, int]:
    """How often the engine was asked without and with transitions."""
    asked, seen = [], []
    for transitions in (0, most):
        with closing(open_game(games_dir, cache_dir, game, max_steps=6, transitions=transitions)) as environment:
            seen.append(play(environment, game, steps))
            asked.append(environment.figures()["counts"]["observations"])
    assert seen[0] == seen[1]
    return asked[0], asked[1]


@pytest.mark.parametrize(("game", "most"), [("zork1", 1000), ("zork1", 5), ("pentari", 1000)])
def test_ways_from_memory_are_those_of_the_engine(games_dir, cache_dir, game, most):
    without, with_them = compare(games_dir, cache_dir, game, 120, most)
    assert with_them < 0.7 * without if most > 5 else with_them <= without


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("game", SIX)
def test_ways_from_memory_are_those_of_the_engine_for_long(games_dir, cache_dir, game):
    without, with_them = compare(games_dir, cache_dir, game, 2000, 50_000)
    assert with_them < 0.5 * without


def test_the_engine_is_sent_after_when_the_way_is_new(games_dir, cache_dir):
    """Also its map of ways gone, and its parser's words for what is in sight."""
    way = ["north", "north", "quit", "south"]
    with closing(open_game(games_dir, cache_dir)) as environment:
        environment.reset("zork1", 0)
        for command in [*way, "east"]:
            expected = say(environment, command)
    with closing(open_game(games_dir, cache_dir)) as environment:
        environment.reset("zork1", 0)
        for command in way:
            say(environment, command)
        in_sight, line = environment._play._things, environment._play._line
        say(environment, "west")  # other things are in sight
        assert environment._play._things != in_sight
        before = environment.figures()["counts"]["observations"]
        environment.reset("zork1", 0)
        for command in way:
            say(environment, command)
        assert environment.figures()["counts"]["observations"] == before
        assert (environment._play._things, environment._play._line) == (in_sight, line)
        assert say(environment, "east") == expected
        assert environment.figures()["counts"]["observations"] == before + 1
        assert environment.counts["refused"] == 2
        assert environment.best_gain() == 0
    triples = expected.observation.graph.triples
    assert {("north house", "north", "forest path"), ("forest path", "south", "north house")} <= set(triples)


def test_the_most_that_can_be_earned_at_once_where_the_engine_is_elsewhere(games_dir, cache_dir):
    way = ["north", "east", "open window"]
    with closing(open_game(games_dir, cache_dir)) as environment:
        for _ in range(2):
            environment.reset("zork1", 0)
            for command in way:
                say(environment, command)
            assert environment.best_gain() == 10
            assert say(environment, "west").reward == 10
            environment.reset("zork1", 0)


def test_the_most_that_can_be_earned_is_asked_on_the_way_too(games_dir, cache_dir):
    """The engine is asked at the start, and stays there while a known way is gone."""
    way = ["north", "east", "open window"]
    with closing(open_game(games_dir, cache_dir)) as environment:
        played = []
        for _ in range(2):
            environment.reset("zork1", 0)
            gains = [environment.best_gain()]
            for command in way:
                say(environment, command)
                gains.append(environment.best_gain())
            played.append((gains, say(environment, "west")))
    assert played[0] == played[1]
    assert played[0][0] == [0, 0, 0, 10]


def test_players_who_do_not_go_in_step_are_not_mistaken_about_where_they_are(games_dir, cache_dir):
    """The second goes first; the first, whose engine is at the start, goes the same way from memory, then on."""
    first, second = players(games_dir, cache_dir, 2)
    with closing(first), closing(second):
        for environment in (first, second):
            environment.reset("zork1", 0)
        for environment in (second, first):
            north = say(environment, "north")
        further = say(first, "east")
        assert say(second, "east") == further
    assert north.observation.feedback.startswith("North of House")
    assert further.observation.feedback.startswith("Behind House")


@pytest.mark.parametrize("key", ["state", "view"])
def test_what_is_offered_at_the_time_limit_does_not_depend_on_what_is_kept(cache_dir, key):
    """With views valid actions are known there only if the view was met before, which changes as a run goes on."""
    played = []
    for most in (0, 50_000):
        config = JerichoConfig(game="generated", cache_key=key, max_steps=4, transitions=most)
        with closing(jericho(config, Build(cache_dir=cache_dir))) as environment:
            (game,) = environment.games("train")
            played.append(play(environment, game, 320, choices=6))
    assert played[0] == played[1]
    last = [each for each in played[0] if isinstance(each, StepResult) and each.ending is Ending.TRUNCATED]
    known = {"inventory" in {action.text for action in each.observation.admissible} for each in last}
    assert known == {True, False}


def node(text: str, ending: Ending | None = None) -> Node:
    return Node(StepResult(Observation(text, "a room", "nothing", (), StateGraph(("you",))), 0.0, ending))


def test_what_is_alike_is_kept_once_and_all_is_forgotten_when_it_is_too_much():
    transitions = Transitions(2)
    start = transitions.begin(node("start"))
    assert transitions.begin(node("another start")) is start
    north = transitions.go(start, "north", node("north"))
    assert transitions.go(start, "north", node("again")) is north
    assert north.result.observation.graph is start.result.observation.graph
    far = transitions.go(north, "north", node("far"))
    transitions.go(far, "north", node("farther"))
    assert transitions.start is None
    assert repr(transitions) == "Transitions(1 of 2)"
    assert Transitions(0).begin(node("start")) is None
