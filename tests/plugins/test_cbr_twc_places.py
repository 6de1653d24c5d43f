"""The map that an observation holds: what the game says, of what was seen, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from twc_games import SCREEN_DOOR, play_at_random, published

from cbr_isolate.environment import isolated
from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbr_twc.places import read_places
from cbrcore.errors import GameError
from cbrcore.interfaces import Build, Places, TellsPlaces
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.types import Action, Observation, StateGraph


@pytest.fixture(scope="module")
def generated(cache_dir) -> TwcEnvironment:
    config = TwcConfig(source="generate", level="hard", games_per_split=1)
    yield (environment := TwcEnvironment(config, Build(cache_dir=cache_dir)))
    environment.close()


def test_a_map_by_hand():
    """Two rooms were entered, the hall's north was not; its door is shut. The cup lies on the floor, as the shelf
    stands there; nothing in the graph tells them apart."""
    graph = StateGraph.of(
        [
            ("player", "at", "hall"),
            ("shelf", "at", "hall"),
            ("cup", "at", "hall"),
            ("kitchen", "west_of", "hall"),
            ("hall", "east_of", "kitchen"),
            ("exit", "north_of", "hall"),
            ("oak door", "is", "closed"),
            ("oven", "at", "kitchen"),
            ("oven", "is", "open"),
            ("pie", "in", "oven"),
            ("plate", "on", "shelf"),
            ("hat", "in", "player"),
        ]
    )
    where = {"shelf": "hall", "cup": "hall", "oven": "kitchen", "pie": "oven", "plate": "shelf", "hat": "player"}
    assert read_places(graph, frozenset({"shelf", "oven", "bed of an unseen room"})) == Places(
        here="hall",
        exits={"hall": {"go west": "kitchen", "go north": None}, "kitchen": {"go east": "hall"}},
        where=where,
        player="player",
        holders=frozenset({"shelf", "oven"}),
    )


def test_a_room_without_a_way_out_has_no_exits():
    assert read_places(StateGraph.of([("player", "at", "cell")]), frozenset()).exits == {"cell": {}}


def check_against_the_game(environment: TwcEnvironment, found: Places, seen: tuple[set[str], set[str]]) -> None:
    """Every field is the game's own state, of the rooms that were entered and the things that were in sight."""
    game, world = environment._playing.game, environment._playing._episode.world
    rooms, things = seen
    standing = {holder: room for room in rooms for holder in game.furniture[room]}
    assert (found.here, found.player) == (world.room, "player")
    assert found.where == standing | {thing: world.place[thing] for thing in things}
    assert found.holders == set(standing)
    assert found.exits == {
        room: {f"go {to}": way.room if way.room in rooms else None for to, way in game.exits[room].items()}
        for room in rooms
    }


def follow(environment: TwcEnvironment, name: str) -> int:
    """A random play of the game in which every map is checked; in how many rooms it was."""
    rooms: set[str] = set()
    things: set[str] = set()
    for before, _, result in play_at_random(environment, name, random.Random(name)):
        game, world = environment._playing.game, environment._playing._episode.world
        rooms |= {game.start.room, world.room}
        text = " ".join(f"{now.description} {now.inventory}" for now in (before, result.observation))
        things |= {thing for thing in game.things if game.printed[thing] in text}
        check_against_the_game(environment, environment.places(result.observation), (rooms, things))
    return len(rooms)


@pytest.mark.parametrize("level", ["easy", "hard"])
def test_the_map_is_the_games_own_of_what_was_seen(games_dir, level):
    environment = published(games_dir, level, verify="never")
    visited = [follow(environment, game) for game in environment.games("train")]
    assert max(visited) == (2 if level == "hard" else 1)
    environment.close()


def test_the_map_of_a_generated_game_is_its_own(generated):
    assert {follow(generated, *generated.games(split)) for split in generated.splits()} == {1, 2}


def walk(environment: TwcEnvironment, game: str, *commands: str) -> list[Observation]:
    seen = [environment.reset(game, 0)]
    return seen + [environment.step(Action(command, command)).observation for command in commands]


def test_a_shut_door_is_a_way_all_the_same(games_dir):
    environment = published(games_dir, "hard", verify="never")
    opened, shut = walk(environment, SCREEN_DOOR, "close screen door")
    assert "go west" in {action.text for action in opened.admissible}
    assert "go west" not in {action.text for action in shut.admissible}
    assert environment.places(shut) == environment.places(opened)
    assert environment.places(shut).exits == {"backyard": {"go west": None}}
    assert "screen door" not in environment.places(shut).where
    environment.close()


def test_a_map_does_not_depend_on_what_is_played_or_was_told_before(games_dir):
    """Nor on the instance: another one that never played the game tells the same of the same observation."""
    environment = published(games_dir, "hard", verify="never")
    outside, inside = walk(environment, SCREEN_DOOR, "go west")
    maps = [environment.places(outside), environment.places(inside)]
    assert maps[0].exits == {"backyard": {"go west": None}}
    assert maps[1].exits == {"backyard": {"go west": "kitchen"}, "kitchen": {"go east": "backyard"}}
    assert maps[0].holders < maps[1].holders
    environment.reset(environment.games("in")[0], 0)
    fresh = published(games_dir, "hard", verify="never")
    for asked in (environment, fresh):
        assert [asked.places(outside), asked.places(inside)] == maps
    environment.close()


def test_with_the_full_graph_everything_is_told(games_dir):
    environment = published(games_dir, "hard", verify="never", graph="full")
    (start,) = walk(environment, SCREEN_DOOR)
    found, game = environment.places(start), environment._playing.game
    check_against_the_game(environment, found, (set(game.rooms), set(game.things)))
    environment.close()


def test_only_the_graph_and_the_games_name_are_looked_at(generated):
    (game,) = generated.games("train")
    (start,) = walk(generated, game)
    bare = Observation("", "", "", (), start.graph, game=game)
    assert generated.places(bare) == generated.places(start)
    with pytest.raises(GameError, match="is called 'nowhere'"):
        generated.places(replace(start, game="nowhere"))


def test_it_can_be_told_that_it_tells_places(generated):
    assert isinstance(generated, TellsPlaces)


SMOKE = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"


def test_in_a_process_of_its_own_it_tells_the_same(generated, cache_dir):
    sets = [f"environment.{one}" for one in ("level=hard", "games_per_split=1", "max_steps=50")]
    registry = load_plugins().registry
    apart = isolated(
        load_recipe(SMOKE, overrides=[*sets, "run.isolate=true"], registry=registry),
        registry,
        Build(cache_dir=cache_dir),
    )
    assert isinstance(apart, TellsPlaces)
    (name,) = generated.games("train")
    plays = [list(play_at_random(each, name, random.Random(3))) for each in (generated, apart)]
    for (before, *_), (same, *_) in zip(*plays, strict=True):
        assert apart.places(same) == generated.places(before)
    apart.close()
