"""The TWC environment plays what TextWorld plays, step by step, and counts what the papers count."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from twc_games import (
    DESK_AND_DESK_CHAIR,
    FOOD_AND_OBJECTS,
    LEVELS,
    SCREEN_DOOR,
    TOWEL_AND_TOWEL_RAIL,
    TextWorld,
    choose,
    edit_json,
    json_files,
    level_of,
    plain,
    play_at_random,
    published,
)

from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbr_twc.interpreter import Engine, Engines
from cbr_twc.planner import optimal_plan
from cbr_twc.reading import load_game
from cbrcore.cycle.evaluation import same_games
from cbrcore.errors import GameError
from cbrcore.interfaces import Build, Environment
from cbrcore.testing import EnvironmentSuite
from cbrcore.types import Action, Ending

pytestmark = pytest.mark.filterwarnings("ignore::jericho.UnsupportedGameWarning")


@pytest.fixture(scope="module")
def build(cache_dir) -> Build:
    return Build(cache_dir=cache_dir)


@pytest.fixture(scope="module")
def generated(build) -> TwcEnvironment:
    """Two-room games, available everywhere."""
    environment = TwcEnvironment(TwcConfig(source="generate", level="hard", games_per_split=1), build)
    yield environment
    environment.close()


class TestConformance(EnvironmentSuite):
    def make(self, build):
        return TwcEnvironment(TwcConfig(source="generate", level="hard", games_per_split=1), build)

    @pytest.fixture
    def build(self, cache_dir) -> Build:
        return Build(cache_dir=cache_dir)


def test_all_levels_together_are_the_games_of_each(games_dir):
    together = published(games_dir, "all")
    for split in together.splits():
        alone = [game for level in LEVELS for game in published(games_dir, level).games(split)]
        assert list(together.games(split)) == sorted(alone)
        assert len(alone) == 15
    hard = published(games_dir, "hard").games("train")[0]
    assert together.reset(hard, 0) == published(games_dir, "hard").reset(hard, 0)


def test_generated_games_of_all_levels_together(build):
    def games(level: str) -> tuple[str, ...]:
        config = TwcConfig(source="generate", level=level, games_per_split=1)
        return TwcEnvironment(config, build).games("train")

    assert sorted(games("all")) == sorted(game for level in LEVELS for game in games(level))
    assert len(set(games("all"))) == 3


def test_training_games_may_be_those_of_other_levels(games_dir):
    """The other splits stay those of `level`, and the games are known wherever they come from."""
    pooled, hard = published(games_dir, "hard", train_level="all"), published(games_dir, "hard")
    assert pooled.games("train") == published(games_dir, "all").games("train")
    for split in ("in", "out"):
        assert pooled.games(split) == hard.games(split)
    easy = published(games_dir, "easy")
    game = easy.games("train")[0]
    assert pooled.game_info(game) == easy.game_info(game)
    assert pooled.reset(game, 0) == easy.reset(game, 0)
    assert pooled.object_places("train").keys() > hard.object_places("train").keys()
    assert same_games(pooled) == []
    with pytest.raises(GameError, match="is called"):
        pooled.game_info(easy.games("out")[0])
    pooled.close()


def test_training_levels_of_generated_games(build):
    def made(level: str, **settings) -> TwcEnvironment:
        return TwcEnvironment(TwcConfig(source="generate", level=level, games_per_split=1, **settings), build)

    pooled = made("easy", train_level="hard")
    assert pooled.games("train") == made("hard").games("train")
    assert [pooled.games(split) for split in ("in", "out")] == [
        made("easy").games(split) for split in ("in", "out")
    ]


@pytest.mark.parametrize(
    ("level", "train_level", "said"),
    [("hard", "all", "all"), ("all", "easy", "easy"), ("easy", "hard", "hard"),
     ("hard", None, None), ("hard", "hard", None), ("all", "all", None)],
)  # fmt: skip
def test_that_training_is_on_other_levels_is_a_handicap_and_said_then_alone(level, train_level, said):
    plain = TwcEnvironment(TwcConfig(level=level), Build()).handicaps
    found = TwcEnvironment(TwcConfig(level=level, train_level=train_level), Build()).handicaps
    assert found == {**plain, **({"train_level": said} if said else {})}


# As TextWorld plays


def assert_same(observation, theirs) -> None:
    assert observation.description == theirs.description
    assert observation.inventory == theirs.inventory
    assert plain(observation.feedback) == plain(theirs.feedback)
    assert [action.text for action in observation.admissible] == sorted(
        command.lower() for command in theirs.admissible_commands
    )
    assert observation.max_score == theirs.max_score
    assert observation.score == (theirs.score or 0)


def play_both(environment: TwcEnvironment, story: Path, episodes: int, pick=choose) -> None:
    """Random plays of both, compared after every step; nothing is checked against the game on our side."""
    theirs, rng = TextWorld(story), random.Random(story.name)
    for _ in range(episodes):
        observation, ending = environment.reset(story.stem, 0), None
        theirs.state = theirs.env.reset()
        assert_same(observation, theirs.state)
        while ending is None:
            action = pick(observation, rng)
            theirs.step(action.text)
            result = environment.step(action)
            observation, ending = result.observation, result.ending
            assert_same(observation, theirs.state)
            assert theirs.done == (ending is Ending.WON)
    theirs.close()
    environment.close()


TRICKY = (DESK_AND_DESK_CHAIR, TOWEL_AND_TOWEL_RAIL, SCREEN_DOOR, FOOD_AND_OBJECTS)


@pytest.mark.parametrize("name", TRICKY)
def test_a_tricky_game_is_played_as_textworld_plays_it(games_dir, name):
    (path,) = [path for path in json_files(games_dir) if path.stem == name]
    play_both(published(games_dir, level_of(path), verify="never"), path.with_suffix(".z8"), 1)


@pytest.mark.parametrize("level", LEVELS)
def test_every_published_game_is_played_as_textworld_plays_it(games_dir, level):
    for path in json_files(games_dir):
        if level_of(path) == level:
            play_both(published(games_dir, level, verify="never"), path.with_suffix(".z8"), 1)


def test_a_generated_game_is_played_as_textworld_plays_it(generated, build):
    settings = generated.config.model_copy(update={"verify": "never"})
    (name,) = generated.games("out")
    play_both(TwcEnvironment(settings, build), generated._find(name).z8, 2)


def off_the_list(observation, rng: random.Random) -> Action:
    """Now and then a command that the game knows but does not list, or not now."""
    if rng.random() < 0.7:
        return choose(observation, rng)
    names = [name for name in observation.graph.nodes if name not in ("open", "closed", "player", "exit")]
    verb = rng.choice(["inventory", "go north", "go west", "take {}", "open {}", "drop {}", "take {} from {}"])
    rooms = {tail for _, relation, tail in observation.graph.triples if relation == "at"}
    things = [name for name in names if name not in rooms]
    return Action.from_template(verb, [rng.choice(things) for _ in range(verb.count("{}"))])


def test_commands_off_the_list_are_played_as_textworld_plays_them(generated, build):
    settings = generated.config.model_copy(update={"verify": "never"})
    (name,) = generated.games("train")
    play_both(TwcEnvironment(settings, build), generated._find(name).z8, 2, off_the_list)


def test_descriptions_do_not_depend_on_the_facts_alone(generated):
    """Things are listed in the order in which they were put down: why descriptions must not be cached by facts."""
    (name,) = generated.games("train")
    start = generated.reset(name, 0)
    things = [action.entities[0] for action in start.admissible if action.template.startswith("take")][:2]
    floors = []
    for order in (things, things[::-1]):
        observation = generated.reset(name, 0)
        for thing in things:
            take = next(a for a in observation.admissible if a.text.startswith(f"take {thing}"))
            observation = generated.step(take).observation
        for thing in order:
            result = generated.step(Action.from_template("drop {}", [thing]))
        floors.append(result.observation)
    assert floors[0].graph == floors[1].graph
    assert floors[0].description != floors[1].description


# Verification


def test_always_verifying_changes_nothing(generated, build):
    settings = generated.config.model_copy(update={"verify": "always"})
    checked = TwcEnvironment(settings, build)
    for split in ("train", "out"):
        (name,) = generated.games(split)
        ours = [(step[1], step[2]) for step in play_at_random(generated, name, random.Random(1))]
        theirs = [(step[1], step[2]) for step in play_at_random(checked, name, random.Random(1))]
        assert ours == theirs
    checked.close()


def test_after_the_first_episode_the_game_is_not_run(generated, build):
    environment = TwcEnvironment(generated.config, build)
    (name,) = environment.games("train")
    list(play_at_random(environment, name, random.Random(0)))
    engine = environment._engines.get(generated._find(name).z8)
    executed = engine.history
    list(play_at_random(environment, name, random.Random(1)))
    assert engine.history is executed
    environment.close()


def test_a_story_of_another_game_is_noticed_at_once(generated, tmp_path):
    folder = tmp_path / "easy" / "train"
    folder.mkdir(parents=True)
    (mine,), (other,) = generated.games("train"), generated.games("out")
    (folder / "a.json").write_bytes(generated._find(mine).json.read_bytes())
    (folder / "a.z8").write_bytes(generated._find(other).z8.read_bytes())
    environment = TwcEnvironment(TwcConfig(games_dir=str(tmp_path)), Build())
    with pytest.raises(GameError, match=r"a: the \.z8 and the \.json do not belong together"):
        environment.reset("a", 0)


# Rewards and endings


def solve(environment: TwcEnvironment, name: str):
    """The results of a shortest solution."""
    environment.reset(name, 0)
    return [environment.step(Action(command, command)) for command in optimal_plan(environment._find(name).json)]


def test_the_score_rises_by_one_for_each_thing_in_its_place(generated):
    (name,) = generated.games("train")
    results = solve(generated, name)
    info = generated.game_info(name)
    assert sum(result.reward for result in results) == info["max_score"] == results[-1].observation.score
    paid = [result.observation.last_action for result in results if result.reward]
    assert results[-1].observation.scored == tuple(paid)
    assert len(results) == info["optimal_steps"]


def test_winning_is_not_running_out_of_time(generated, build):
    (name,) = generated.games("train")
    needed = generated.game_info(name)["optimal_steps"]
    for limit, ending in ((needed, Ending.WON), (needed - 1, Ending.TRUNCATED)):
        settings = generated.config.model_copy(update={"max_steps": limit})
        environment = TwcEnvironment(settings, build)
        plan = optimal_plan(generated._find(name).json)[:limit]
        environment.reset(name, 0)
        results = [environment.step(Action(command, command)) for command in plan]
        assert [result.ending for result in results] == [None] * (limit - 1) + [ending]
        assert ending.terminal == (ending is Ending.WON)
        environment.close()


def test_after_the_end_a_step_is_refused_until_the_next_reset(generated):
    (name,) = generated.games("train")
    solve(generated, name)
    with pytest.raises(RuntimeError, match="call reset"):
        generated.step(Action("look", "look"))
    assert generated.reset(name, 0).steps == 0
    assert generated.step(Action("look", "look")).ending is None


def test_a_step_before_any_reset_is_refused(generated, build):
    with pytest.raises(RuntimeError, match="call reset"):
        TwcEnvironment(generated.config, build).step(Action("look", "look"))


def test_putting_a_thing_back_in_its_place_is_rescored_and_pays_nothing(generated):
    (name,) = generated.games("train")
    plan = optimal_plan(generated._find(name).json)
    first = next(i for i, command in enumerate(plan) if command.startswith(("put", "insert")))
    generated.reset(name, 0)
    for command in plan[: first + 1]:
        result = generated.step(Action(command, command))
    assert (result.reward, result.rescored) == (1.0, False)
    put = generated._playing.game.action(*template_and_entities(plan[first]))
    taken = generated.step(Action.from_template("take {} from {}", put.entities))
    assert (taken.reward, taken.rescored, taken.observation.score) == (0.0, False, 1.0)
    again = generated.step(put)
    assert (again.reward, again.rescored, again.observation.score) == (0.0, True, 1.0)
    assert again.observation.scored == (put.text,)


def template_and_entities(command: str) -> list[str]:
    verb, rest = command.split(" ", 1)
    preposition = {"put": " on ", "insert": " into "}[verb]
    return [f"{verb} {{}}{preposition}{{}}", *rest.split(preposition)]


@pytest.fixture(scope="module")
def losing(generated, build, tmp_path_factory) -> TwcEnvironment:
    """A game that is lost by putting its first thing in a wrong place; given as .json (and .ulx) only."""
    folder = tmp_path_factory.mktemp("losing")
    (folder / "easy" / "train").mkdir(parents=True)
    path = folder / "easy" / "train" / "trap.json"
    (name,) = generated.games("train")
    path.write_bytes(generated._find(name).json.read_bytes())
    path.with_suffix(".ulx").write_bytes(b"Glul")
    edit_json(path, add_trap)
    environment = TwcEnvironment(TwcConfig(games_dir=str(folder)), build)
    yield environment
    environment.close()


def add_trap(data) -> None:
    """The first quest fails when its thing is on a supporter of the thing's own room that is no goal."""
    (quest, *_) = data["quests"]
    event = json.loads(json.dumps(quest["win_events"][0]))
    thing = event["condition"]["preconditions"][0]["arguments"][0]
    goals = {e["condition"]["preconditions"][0]["arguments"][1]["name"] for e in quest["win_events"]}
    taken = {f["arguments"][1]["name"] for f in data["world"] if f["name"] == "on"}
    trap = next(i for i, info in data["infos"] if info["type"] == "s" and i not in goals | taken)
    fact = {"name": "on", "arguments": [thing, {"name": trap, "type": "s"}]}
    event["condition"]["preconditions"] = [fact]
    event["condition"]["postconditions"] = [fact, {"name": "event", "arguments": fact["arguments"][::-1]}]
    quest["fail_events"] = [event]


def reach(environment: TwcEnvironment, name: str, thing: str, place: str):
    """Walk about until `thing` is put on `place`; the last result."""
    observation = environment.reset(name, 0)
    for _ in range(12):
        texts = {action.text for action in observation.admissible}
        wanted = [f"put {thing} on {place}", *(t for t in texts if t.startswith(f"take {thing}"))]
        wanted += [text for text in texts if text.startswith("go ")]
        command = next(text for text in wanted if text in texts)
        result = environment.step(Action(command, command))
        if command == wanted[0]:
            return result
        observation = result.observation
    raise AssertionError(f"{thing} was not found")


def test_a_lost_game_ends_as_lost(losing):
    losing.reset("trap", 0)
    (trap,) = losing._playing.game.traps
    (place,) = trap.places
    result = reach(losing, "trap", trap.thing, place)
    assert result.ending is Ending.LOST
    assert result.reward == 0
    assert "*** You lost! ***" in result.observation.feedback


def test_a_game_compiled_from_its_json_is_played_to_the_end(losing):
    results = solve(losing, "trap")
    assert results[-1].ending is Ending.WON
    assert losing.game_info("trap")["sha256_z8"] is None


# Observations


def test_the_first_feedback_has_no_banner(generated):
    (name,) = generated.games("in")
    observation = generated.reset(name, 0)
    assert "$$$" not in observation.feedback
    assert observation.feedback.endswith(observation.description)
    assert (observation.game, observation.steps, observation.last_action) == (name, 0, None)


def test_the_same_actions_give_the_same_episode_whatever_the_seed(generated):
    (name,) = generated.games("in")
    episodes = []
    for seed in (1, 2):
        rng, steps = random.Random(0), [generated.reset(name, seed)]
        for _ in range(20):
            steps.append(generated.step(choose(steps[-1], rng)).observation)
        episodes.append(steps)
    assert episodes[0] == episodes[1]


def test_dropped_commands_are_not_offered_but_the_rest_is(generated, build):
    (name,) = generated.games("in")
    settings = generated.config.model_copy(update={"drop_commands": ("look", "examine")})
    environment = TwcEnvironment(settings, build)
    kept = [action.text for action in environment.reset(name, 0).admissible]
    everything = [action.text for action in generated.reset(name, 0).admissible]
    assert kept == [text for text in everything if not text.startswith(("look", "examine"))]
    assert kept != everything
    environment.close()


def test_handicaps_say_what_makes_the_task_easier(build):
    def handicaps(**settings):
        return TwcEnvironment(TwcConfig(**settings), build).handicaps

    assert handicaps() == {
        "state_graph": "ground truth, partially observable",
        "commands": "full admissible list",
    }
    assert handicaps(graph="full", drop_commands=["look", "examine"]) == {
        "state_graph": "ground truth, all facts",
        "commands": "admissible without: examine, look",
    }


@pytest.mark.parametrize(
    "wrong", [{"level": "esay"}, {"max_steps": 0}, {"drop_commands": ["take"]}, {"games_per_split": 0}]
)
def test_settings_out_of_bounds_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TwcConfig(**wrong)


# Commands that are not on the list


def test_a_command_that_is_not_admissible_is_answered_by_the_game(generated):
    (name,) = generated.games("train")
    before = generated.reset(name, 0)
    listed = {action.text for action in before.admissible}
    nowhere = next(way for way in ("go north", "go east", "go south", "go west") if way not in listed)
    refused = generated.step(Action(nowhere, nowhere)).observation
    assert "You can't go that way" in refused.feedback
    carried = generated.step(Action("inventory", "inventory")).observation
    assert carried.feedback == before.inventory
    assert carried.admissible == before.admissible
    assert (refused.steps, carried.steps) == (1, 2)


def test_a_shortened_command_does_what_the_game_makes_of_it(generated):
    """``take X`` where the list says ``take X from Y``."""
    (name,) = generated.games("train")
    observation = generated.reset(name, 0)
    take = next(a for a in observation.admissible if a.template == "take {} from {}")
    short = generated.step(Action.from_template("take {}", take.entities[:1])).observation
    generated.reset(name, 0)
    full = generated.step(take).observation
    assert short.inventory == full.inventory
    assert short.admissible == full.admissible
    assert short.graph == full.graph


@pytest.mark.parametrize("command", ["quit", "take", "look. inventory", "put moon on sun", "restart", ""])
def test_what_is_no_command_of_the_game_is_refused(generated, command):
    (name,) = generated.games("train")
    generated.reset(name, 0)
    with pytest.raises(GameError):
        generated.step(Action(command, command))
    assert generated.step(Action("look", "look")).observation.steps == 1


def test_a_listed_command_that_the_game_does_not_understand_changes_nothing(games_dir):
    """One of TextWorld's own faults: see `Game.may_ask_back`. The game goes on, and can still be won."""
    environment = published(games_dir, "hard")
    start = environment.reset(DESK_AND_DESK_CHAIR, 0)
    assert "take clean red t-shirt" in {action.text for action in start.admissible}
    taken = environment.step(Action.from_template("take {}", ["clean red t-shirt"])).observation
    put = Action.from_template("put {} on {}", ["clean red t-shirt", "desk"])
    assert put in taken.admissible
    asked = environment.step(put).observation
    assert asked.feedback == "Which do you mean, the desk or the desk chair?"
    assert asked.inventory == taken.inventory
    for command in optimal_plan(environment._find(DESK_AND_DESK_CHAIR).json):
        if command != "take clean red t-shirt":
            result = environment.step(Action(command, command))
    assert result.ending is Ending.WON
    environment.close()


# Splits and games


def test_splits_are_those_of_the_benchmark(games_dir):
    for level in LEVELS:
        environment = published(games_dir, level)
        assert environment.splits() == ("train", "in", "out")
        assert [len(environment.games(split)) for split in environment.splits()] == [5, 5, 5]
        assert all("-test-" in name for name in environment.games("out"))
        assert not any("-test-" in name for name in (*environment.games("train"), *environment.games("in")))


def test_facts_about_a_game(games_dir):
    environment = published(games_dir, "hard")
    info = environment.game_info(SCREEN_DOOR)
    assert json.loads(json.dumps(info)) == info
    assert (info["max_score"], info["objects"], info["rooms"]) == (7, 7, 2)
    assert len(info["sha256"]) == len(info["sha256_z8"]) == 64


def test_where_objects_belong_is_what_the_games_reward(games_dir):
    environment = published(games_dir, "hard")
    found = environment.object_places("out")
    goals = [
        goal
        for path in sorted((games_dir / "twc" / "hard" / "test").glob("*.json"))
        for goal in load_game(path).goals
    ]
    assert list(found) == sorted({goal.thing for goal in goals})
    assert all(set(goal.places) <= found[goal.thing] for goal in goals)
    assert sum(len(places) for places in found.values()) == len({(g.thing, p) for g in goals for p in g.places})


def test_what_the_compiler_dates_is_not_recorded(generated):
    assert all(generated.game_info(generated.games(split)[0])["sha256_z8"] is None for split in generated.splits())


@pytest.mark.parametrize("call", [lambda env: env.games("valid"), lambda env: env.reset("tw-nothing", 0)])
def test_unknown_splits_and_games_are_refused_with_the_known_ones(generated, call):
    with pytest.raises(GameError, match=r"Did you mean|Choose one of"):
        call(generated)


def test_it_is_an_environment(generated):
    assert isinstance(generated, Environment)
    assert "hard" in repr(generated)


def test_settings_load_without_heavy_imports():
    code = "import sys, cbr_twc.config; print([m for m in ('torch', 'textworld', 'jericho') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Resources


def open_files() -> int:
    gc.collect()  # what earlier tests left does not count
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts handles in /proc")
def test_engines_are_bounded_and_leave_nothing_open(generated):
    stories = [generated._find(name).z8 for split in generated.splits() for name in generated.games(split)]
    engines = Engines(limit=2)
    for story in stories:
        engines.get(story)
    opened = open_files()
    maps = len(Path("/proc/self/maps").read_text().splitlines())
    for number in range(60):
        engines.get(stories[number % 3])
        assert len(engines) == 2
    gc.collect()
    assert open_files() == opened
    assert len(Path("/proc/self/maps").read_text().splitlines()) < maps + 20
    engines.close()
    assert len(engines) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts handles in /proc")
def test_two_hundred_resets_open_nothing_more(generated, build):
    environment = TwcEnvironment(generated.config.model_copy(update={"verify": "always"}), build)
    (name,) = environment.games("in")
    environment.reset(name, 0)
    opened = open_files()
    for _ in range(200):
        observation = environment.reset(name, 0)
        environment.step(observation.admissible[0])
    assert open_files() == opened
    assert len(environment._engines) == 1
    environment.close()


def test_an_engine_that_was_closed_comes_back_where_the_episode_is(generated, build):
    """Engines are bounded; a game whose engine was closed catches up when it is needed again."""
    environment = TwcEnvironment(generated.config.model_copy(update={"verify": "never"}), build)
    (name,) = environment.games("train")
    observation = environment.reset(name, 0)
    rng = random.Random(3)
    for _ in range(10):
        observation = environment.step(choose(observation, rng)).observation
    environment._engines.close()
    after = environment.step(Action("inventory", "inventory")).observation
    assert after.feedback == observation.inventory
    environment.close()


def test_an_engine_restarts_exactly(generated):
    (name,) = generated.games("train")
    story = generated._find(name).z8
    engine = Engine(story.name, story.read_bytes())
    plan = optimal_plan(generated._find(name).json)
    runs = []
    for _ in range(2):
        history: list[str] = []
        engine.catch_up(history)
        runs.append([engine.send(command) for command in plan])
    assert runs[0] == runs[1]
    assert runs[0][-1].ending is Ending.WON
    engine.close()
