"""The state graph holds what the player knows, and every entity of every admissible action."""

from __future__ import annotations

import random

import pytest
from twc_games import LEVELS, SCREEN_DOOR, json_files, level_of, play_at_random, published

from cbr_twc.graph import UNKNOWN_ROOM, GraphView
from cbr_twc.reading import load_game
from cbr_twc.world import PLAYER, admissible, apply
from cbrcore.types import Action, StateGraph


@pytest.fixture(scope="module")
def kitchen(games_dir):
    """A game of two rooms with a door between them, and things in the player's hands."""
    return load_game(next(path for path in json_files(games_dir) if path.stem == SCREEN_DOOR))


def graphs(game, commands, mode="evolve") -> list[StateGraph]:
    """The graph at the start and after each command."""
    view, world = GraphView(game, mode), game.start.copy()
    view.restart()
    found = [view.graph(world)]
    for command in commands:
        apply(world, next(action for action in admissible(world, game) if action.text == command), game)
        found.append(view.graph(world))
    return found


def test_a_graph_by_hand(kitchen):
    """The backyard as the game describes it at the start; the kitchen behind the door is unknown."""
    (start,) = graphs(kitchen, [])
    things = {thing for thing in kitchen.things if kitchen.start.place[thing] in (PLAYER, "backyard")}
    expected = {
        ("player", "at", "backyard"),
        ("exit", "west_of", "backyard"),
        ("screen door", "is", "open"),
        *((holder, "at", "backyard") for holder in kitchen.furniture["backyard"]),
        *((thing, "in", "player") for thing in kitchen.start.contents[PLAYER]),
        *((thing, "at", "backyard") for thing in kitchen.start.contents["backyard"]),
    }
    for holder in kitchen.furniture["backyard"]:
        expected |= {(thing, "on", holder) for thing in kitchen.start.contents[holder]}
        things |= set(kitchen.start.contents[holder])
    assert set(start.triples) == expected
    assert "bbq" in start.nodes
    assert not set(kitchen.furniture["kitchen"]) & set(start.nodes)


def test_what_is_carried_from_the_start_is_in_the_graph(games_dir):
    """The known gap of this graph: without mending, such a thing is missing until it is touched."""
    for path in json_files(games_dir):
        game = load_game(path)
        (start,) = graphs(game, [])
        carried = set(game.start.contents[PLAYER])
        assert {(thing, "in", "player") for thing in carried} <= set(start.triples)


def test_a_new_room_is_added_and_the_old_one_remembered(kitchen):
    before, inside = graphs(kitchen, ["go west"])
    assert ("player", "at", "kitchen") in inside.triples
    assert ("kitchen", "west_of", "backyard") in inside.triples
    assert ("backyard", "east_of", "kitchen") in inside.triples
    assert UNKNOWN_ROOM not in inside.nodes
    assert ("oven", "is", "open") in inside.triples
    old = {triple for triple in before.triples if triple[0] not in ("player", UNKNOWN_ROOM)}
    assert old <= set(inside.triples)


def test_what_is_shut_away_stays_as_remembered(kitchen):
    thing = kitchen.start.contents[PLAYER][0]
    *_, inside, shut = graphs(kitchen, ["go west", f"insert {thing} into oven", "close oven"])
    assert (thing, "in", "oven") in shut.triples
    assert ("oven", "is", "closed") in shut.triples
    assert set(shut.nodes) - {"closed"} == set(inside.nodes) - {"closed"}


def test_what_starts_shut_away_is_unknown_until_it_is_seen(games_dir):
    path = next(
        p for p in json_files(games_dir) if any(load_game(p).start.contents[c] for c in load_game(p).containers)
    )
    game = load_game(path)
    box = next(c for c in sorted(game.containers) if game.start.contents[c])
    if game.start.room not in [room for room in game.rooms if box in game.furniture[room]]:
        game.start.room = next(room for room in game.rooms if box in game.furniture[room])
    game.start.open -= {box}
    hidden = game.start.contents[box][0]
    shut, opened = graphs(game, [f"open {box}"])
    assert hidden not in shut.nodes
    assert (hidden, "in", box) in opened.triples


def test_full_mode_shows_everything_at_once(kitchen):
    (start,) = graphs(kitchen, [], "full")
    assert {"kitchen", "backyard", *kitchen.names} <= set(start.nodes)
    assert UNKNOWN_ROOM not in start.nodes
    partial = graphs(kitchen, [])[0]
    known = {triple for triple in partial.triples if UNKNOWN_ROOM not in triple}
    assert known < set(start.triples)


def test_equal_knowledge_gives_the_same_graph_object(kitchen):
    """Caches of encoded graphs live on it."""
    thing = kitchen.start.contents[PLAYER][0]
    first, _, third = graphs(kitchen, ["close screen door", "open screen door"])
    assert first is third
    dropped = graphs(kitchen, [f"drop {thing}", f"take {thing}"])
    assert dropped[0] == dropped[2] != dropped[1]


def test_a_new_episode_forgets(kitchen):
    view, world = GraphView(kitchen, "evolve"), kitchen.start.copy()
    view.restart()
    start = view.graph(world)
    apply(world, Action("go west", "go west"), kitchen)
    assert view.graph(world) != start
    view.restart()
    assert view.graph(kitchen.start) == start


@pytest.mark.parametrize("mode", ["evolve", "full"])
@pytest.mark.parametrize("level", LEVELS)
def test_every_entity_of_every_action_is_a_node(games_dir, level, mode):
    """V_a must be nodes of G_t [P §4.1]; random plays of all games of the level."""
    environment = published(games_dir, level, graph=mode, verify="never")
    rng = random.Random(level)
    for path in json_files(games_dir):
        if level_of(path) == level:
            for observation, *_ in play_at_random(environment, path.stem, rng):
                nodes = set(observation.graph.nodes)
                for action in observation.admissible:
                    assert nodes.issuperset(action.entities)
                    assert action.seeds == action.entities
                    assert Action.from_template(action.template, action.entities) == action
    environment.close()
