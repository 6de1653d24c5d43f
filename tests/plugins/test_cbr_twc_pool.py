"""Training on published games and generated houses together: what occurs in these, and what is said of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twc_games import LEVELS, edit_json, published

import cbr_twc.exclusion
from cbr_isolate.environment import isolated
from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbr_twc.exclusion import head_forms, sharing_heads
from cbr_twc.files import GameFiles, find_games
from cbr_twc.generate import generated_houses, objects
from cbr_twc.generate.house import load_house
from cbr_twc.generate.plan import SHAPES, plan_houses
from cbr_twc.planner import optimal_plan
from cbr_twc.reading import load_game
from cbrcore.cycle.evaluation import same_games
from cbrcore.errors import CbrError, GameError
from cbrcore.interfaces import Build
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.types import Action, Ending

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"


def pooled(folder: Path, cache_dir: Path, **settings) -> TwcEnvironment:
    """One house a level beside the games of `folder`, which holds twc/; none is much like a measured one."""
    config = {"games_dir": str(folder / "twc"), "houses": 1, "leave_out": "heads", **settings}
    return TwcEnvironment(TwcConfig(**config), Build(cache_dir=cache_dir))


def measured(games_dir: Path, level: str) -> list[GameFiles]:
    return [game for folder in ("valid", "test") for game in find_games(games_dir / "twc" / level / folder)]


# -- heads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("wet blue hoodie", "hoodie"),
        ("shoe", "running shoes"),
        ("summer dress", "dirty dresses"),
        ("steak knife", "knives"),
        ("wool scarf", "scarves"),
        ("cherry", "ripe cherries"),
        ("tomato", "canned tomatoes"),
        ("wine glass", "glasses"),
        ("clean red T-shirt", "polo shirt"),
        ("BBQ", "bbq"),
        ("tea leaves", "leaf"),
    ],
)
def test_names_with_one_head_noun(one, other):
    assert head_forms(one) & head_forms(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("shoe rack", "shoe"), ("potato peeler", "red potato"), ("dress shirt", "dress"), ("pan", "pants"),
     ("toothbrush", "brush"), ("s", "es"), ("bath towel", "bath salts")],
)  # fmt: skip
def test_names_with_different_head_nouns(one, other):
    assert not head_forms(one) & head_forms(other)


@pytest.mark.parametrize("level", LEVELS)
def test_left_out_are_objects_of_ours_alone_and_all_that_share_a_head(games_dir, level):
    """Against an obvious twin for what TWC has: last words, less a final s or es."""

    def plain(name: str) -> set[str]:
        word = name.split()[-1].replace("t-shirt", "shirt")
        return {word, word.removesuffix("s"), word.removesuffix("es")}

    games = measured(games_dir, level)
    theirs = [plain(thing) for files in games for thing in load_game(files.json).things]
    expected = {name for name in objects() if any(plain(name) & other for other in theirs)}
    assert sharing_heads(objects(), games) == expected
    assert {"easy": "sugar", "medium": "moccasins", "hard": "milk"}[level] in expected
    assert sharing_heads([], games) == sharing_heads(objects(), []) == frozenset()


def test_what_lies_about_in_a_measured_game_counts_also_without_a_goal(games_dir, tmp_path):
    path = tmp_path / "game.json"
    path.write_bytes(measured(games_dir, "easy")[0].json.read_bytes())
    before = sharing_heads(objects(), [GameFiles(path, None)])
    edit_json(path, lambda data: data["quests"].clear())
    assert sharing_heads(objects(), [GameFiles(path, None)]) == before != frozenset()


def test_no_name_stays_behind_in_the_module(games_dir):
    before = {name: repr(value) for name, value in vars(cbr_twc.exclusion).items() if name != "__builtins__"}
    sharing_heads(objects(), measured(games_dir, "hard"))
    assert {
        name: repr(value) for name, value in vars(cbr_twc.exclusion).items() if name != "__builtins__"
    } == before


# -- houses --------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**63 - 1),
    level=st.sampled_from(LEVELS),
    count=st.integers(1, 12),
    left_out=st.frozensets(st.sampled_from(objects()), max_size=250),
)
def test_what_is_left_out_occurs_in_no_house_and_every_house_is_whole(seed, level, count, left_out):
    house = load_house()
    plans = plan_houses(house, level, count, seed, left_out)
    assert list(plans) == ["train"]
    assert len(set(plans["train"])) == count
    shapes = SHAPES[level]["train"]
    for index, plan in enumerate(plans["train"]):
        assert len(plan.objects) == shapes[index % len(shapes)].objects
        assert len(plan.rooms) == shapes[index % len(shapes)].rooms
        assert not left_out & {thing.base for thing in plan.objects}
    assert plan_houses(house, level, count + 1, seed, left_out)["train"][:count] == plans["train"]


@pytest.mark.parametrize(("levels", "count"), [(["easy"], 60), (["medium"], 60), (["hard"], 40), (LEVELS, 30)])
def test_no_object_comes_again_while_there_are_others(levels, count):
    bases = [
        thing.base
        for place, level in enumerate(levels)
        for plan in plan_houses(load_house(), level, count, 3, frozenset(), levels[:place])["train"]
        for thing in plan.objects
    ]
    assert len(bases) == len(set(bases)) >= count


def test_nearly_all_objects_occur_in_many_houses_and_not_two_thirds():
    plans = plan_houses(load_house(), "hard", 400, 0, frozenset())["train"]
    assert len({thing.base for plan in plans for thing in plan.objects}) > 0.95 * len(objects())


@pytest.mark.parametrize("left", [0, 1, 3, 5])
def test_too_few_objects_are_said(tmp_path, left):
    with pytest.raises(
        CbrError, match=rf"{left} of {len(objects())} objects are too few for 2 different hard houses"
    ) as told:
        generated_houses("hard", 2, 0, tmp_path, frozenset(objects()[left:]))
    assert "`leave_out: null`" in told.value.hint


@pytest.mark.parametrize(
    ("level", "count", "says"), [("harder", 1, "no level 'harder'"), ("easy", 0, "houses is 0")]
)
def test_wrong_arguments_are_refused(tmp_path, level, count, says):
    with pytest.raises(GameError, match=says):
        generated_houses(level, count, 0, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_set_is_kept_by_what_was_left_out(tmp_path, monkeypatch):
    """The same exclusion, in any order, is the same set and is not made again; another one is another set."""
    without, other = frozenset({"milk", "hoodie"}), frozenset({"milk"})
    first = generated_houses("easy", 1, 0, tmp_path, without)
    second = generated_houses("easy", 1, 0, tmp_path, other)
    assert first[0].parents[1] != second[0].parents[1]
    monkeypatch.setenv("INFORM_HOME", str(tmp_path / "no compiler here"))
    assert generated_houses("easy", 1, 0, tmp_path, frozenset({"hoodie", "milk"})) == first
    with pytest.raises(GameError, match="Inform compiler"):
        generated_houses("easy", 2, 0, tmp_path, other)


# -- the environment -----------------------------------------------------------------------------------------


def test_no_house_shares_a_head_noun_with_a_game_that_is_measured(games_dir, cache_dir):
    environment = pooled(games_dir, cache_dir, level="hard", houses=5)
    alone = published(games_dir, "hard")
    names = environment.games("train")
    assert names[:5] == alone.games("train")
    assert len(names) == len(set(names)) == 10
    heads = {
        form
        for files in measured(games_dir, "hard")
        for t in load_game(files.json).things
        for form in head_forms(t)
    }
    things = [t for name in names[5:] for t in load_game(environment._find(name).json).things]
    assert len(things) == 33
    assert not [thing for thing in things if head_forms(thing) & heads]
    for split in ("in", "out"):
        assert environment.games(split) == alone.games(split)
    told = environment.handicaps["houses"]
    assert told == {"count": 5, "left_out": sorted(sharing_heads(objects(), measured(games_dir, "hard")))}
    assert same_games(environment) == []
    environment.close()


def test_houses_are_made_for_each_level_that_is_trained_on_and_are_the_same_every_time(games_dir, cache_dir):
    """What is left out depends on the levels that are measured."""
    settings = {"level": "medium", "train_level": "all"}
    first, second = pooled(games_dir, cache_dir, **settings), pooled(games_dir, cache_dir, **settings)
    assert first.games("train") == second.games("train")
    added = first.games("train")[15:]
    assert [re.search(r"objects\d", name)[0] for name in added] == ["objects1", "objects3", "objects6"]
    assert first.handicaps["houses"]["left_out"] == sorted(sharing_heads(objects(), measured(games_dir, "medium")))
    assert [first.game_info(name) for name in added] == [second.game_info(name) for name in added]


def test_a_house_is_played_and_won_as_any_game(games_dir, cache_dir):
    environment = pooled(games_dir, cache_dir, verify="always")
    (house,) = set(environment.games("train")) - set(published(games_dir).games("train"))
    info = environment.game_info(house)
    assert (info["max_score"], info["sha256_z8"]) == (1, None)
    assert environment.game_info(environment.games("train")[0])["sha256_z8"] is not None
    environment.reset(house, 0)
    plan = optimal_plan(environment._find(house).json)
    results = [environment.step(Action(command, command)) for command in plan]
    assert (results[-1].ending, len(results)) == (Ending.WON, info["optimal_steps"])
    environment.close()


def test_without_leaving_out_no_measured_game_is_read(games_dir, cache_dir, tmp_path):
    """It is not even there."""
    (tmp_path / "twc" / "easy").mkdir(parents=True)
    (tmp_path / "twc" / "easy" / "train").symlink_to(games_dir / "twc" / "easy" / "train")
    free = pooled(tmp_path, cache_dir, leave_out=None)
    assert len(free.games("train")) == 6
    assert free.handicaps["houses"] == {"count": 1}
    with pytest.raises(GameError, match="valid"):
        pooled(tmp_path, cache_dir).games("train")


def test_without_houses_nothing_is_said_of_them(games_dir, cache_dir):
    environment = pooled(games_dir, cache_dir, houses=0, leave_out=None)
    assert environment.games("train") == published(games_dir).games("train")
    assert environment.handicaps == published(games_dir).handicaps


# -- recipes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["environment.houses=-1"], "environment.houses"),
        (["environment.houses=many"], "environment.houses"),
        (["environment.houses=1001"], "environment.houses"),
        (["environment.leave_out=nouns"], "environment.leave_out"),
        (["environment.leave_out=true"], "environment.leave_out"),
        (["environment.houses=2"], "source 'generate' has no use for 'houses'"),
        (["environment.games_dir=/nowhere"], "source 'generate' has no use for 'games_dir'"),
        (["environment.leave_out=heads"], "'leave_out' is about 'houses', and there are none"),
    ],
)
def test_wrong_settings_are_said_before_anything_runs(here, sets, says):
    done = here("check", SMOKE, *(word for one in sets for word in ("--set", one)))
    assert done.returncode == 2
    assert says in done.stderr


def settings(games_dir: Path, *others: str) -> list[str]:
    """What makes a pool of the smoke recipe's generated games, for --set."""
    environment = (
        f"{{use: cbr_twc/twc, games_dir: {games_dir / 'twc'}, houses: 2, leave_out: heads, max_steps: 4}}"
    )
    return [f"environment={environment}", "run.episodes=7", "training.pretrain.episodes=0", *others]


def test_a_run_over_a_pool_says_what_it_was_trained_on(games_dir, here, tmp_path):
    sets = [word for one in settings(games_dir) for word in ("--set", one)]
    done = here("run", SMOKE, *sets, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    protocol = json.loads((tmp_path / "run" / "results.json").read_text())["protocol"]
    told = protocol["handicaps"]["houses"]
    assert (told["count"], len(told["left_out"])) == (2, 12)
    assert [len(games) for games in protocol["games"].values()] == [7, 5, 5]
    rows = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert {row["game"] for row in rows} == set(protocol["games"]["train"])
    assert here("evaluate", tmp_path / "run", "--split", "in").returncode == 0  # plays no game of the training
    again = json.loads((tmp_path / "run" / "results.json").read_text())["protocol"]
    assert again["handicaps"] == protocol["handicaps"]


def test_a_pool_in_a_process_of_its_own_says_the_same(games_dir, cache_dir):
    registry = load_plugins().registry
    recipe = load_recipe(SMOKE, overrides=settings(games_dir, "run.isolate=true"), registry=registry)
    apart = isolated(recipe, registry, Build(cache_dir=cache_dir))
    here = TwcEnvironment(recipe.environment.settings, Build(cache_dir=cache_dir))
    assert apart.games("train") == here.games("train")
    assert apart.handicaps == here.handicaps
    assert "houses" in apart.handicaps
    apart.close()
