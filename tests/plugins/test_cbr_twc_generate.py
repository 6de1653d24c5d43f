"""Games made on the spot: the house, the plans, the compiled games, and the cache that keeps them."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cbr_twc.generate import generated_games
from cbr_twc.generate.build import build_game, compile_game
from cbr_twc.generate.cache import new_set, publish, read_set, write_manifest
from cbr_twc.generate.draw import HOLDERS_PER_ROOM, Drawer, Furniture, GamePlan, Misplaced, Shape
from cbr_twc.generate.house import HOUSE, House, load_house
from cbr_twc.generate.plan import SHAPES, SPLITS, plan_games, split_bases
from cbrcore.errors import GameError

LEVELS = tuple(SHAPES)


@pytest.fixture(scope="session")
def house() -> House:
    return load_house()


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def small_sets(cache, three_processes) -> dict[str, dict[str, list[Path]]]:
    """One game per split for each level: nine games, shared by the tests that play (three are there already)."""
    return {level: generated_games(level, 1, 5, cache) for level in LEVELS}


# The house


def test_the_house_is_large_enough_to_learn_in(house):
    assert len(house.rooms) >= 8
    assert len(house.holders) >= 40
    assert len(house.bases) >= 150
    assert len(house.things) > len(house.bases)


def test_every_holder_is_right_for_three_base_objects(house):
    for holder in house.holders:
        assert len({thing.base for thing in house.things if holder in thing.places}) >= 3, holder


def test_every_room_has_four_holders_and_a_neighbour(house):
    for room in house.rooms:
        assert len(house.holders_in(room)) >= 4, room
        assert any(room in connection.rooms for connection in house.connections), room


def test_names_parse_as_command_templates(house):
    names = [*house.rooms, *house.holders, *(thing.name for thing in house.things)]
    assert len(set(names)) == len(names)
    for name in names:
        assert name == name.lower().strip()
        assert not any(part in f" {name} " for part in (" on ", " from ", " into ", " in ", "{", "}"))


def test_states_of_a_base_belong_to_different_places(house):
    by_base: dict[str, list[tuple[str, ...]]] = {}
    for thing in house.things:
        by_base.setdefault(thing.base, []).append(thing.places)
    for base, places in by_base.items():
        assert len(set(places)) == len(places), base


def _break(change) -> dict:
    data = yaml.safe_load(HOUSE.read_text("utf-8"))
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["things"][0]["states"].update(wet=["wardrob"]),
            "no holder 'wardrob'. Did you mean 'wardrobe'",
        ),
        (lambda d: d["supporters"].update(desk=["studdy"]), "no room 'studdy'. Did you mean 'study'"),
        (lambda d: d["connections"].append(["attic", "study"]), "no room 'attic'"),
        (lambda d: d["things"][0]["states"].update(clean=[]), "'clean blazer' needs 1 to 3 different holders"),
        (lambda d: d["things"][0]["names"].append("Tuxedo"), "the name 'clean Tuxedo' cannot be used"),
        (lambda d: d["things"][0]["names"].append("box of ties"), "'clean box of ties' cannot be used"),
        (lambda d: d["things"][0]["names"].append("blazer"), "the name 'clean blazer' is used twice"),
        (lambda d: d["containers"].update(bathroom=["bathroom"]), "the name 'bathroom' is used twice"),
        (lambda d: d["things"][5]["names"].append("shoe"), "'shoe' can be mistaken for 'shoe rack'"),
        (lambda d: d["things"][5]["names"].append("mantelpieces"), "'mantelpieces' can be mistaken for"),
        (lambda d: d.pop("things"), "not a house"),
        (lambda d: d.update(connections=[["study"]]), "not a house"),
        (lambda d: d.update(things=7), "not a house"),
    ],
)
def test_a_broken_house_is_refused_by_name(tmp_path, change, message):
    path = tmp_path / "house.yaml"
    path.write_text(yaml.safe_dump(_break(change)), "utf-8")
    with pytest.raises(GameError) as caught:
        load_house(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["rooms: [", "just words", ""])
def test_a_file_that_is_no_house_is_refused(tmp_path, text):
    path = tmp_path / "house.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(GameError, match="not a house"):
        load_house(path)


def test_all_faults_of_a_house_are_listed_together(tmp_path):
    path = tmp_path / "house.yaml"
    path.write_text(yaml.safe_dump(_break(lambda d: d["things"][0]["states"].update(clean=["a", "b"]))), "utf-8")
    with pytest.raises(GameError) as caught:
        load_house(path)
    assert "no holder 'a'" in str(caught.value)
    assert "no holder 'b'" in str(caught.value)


def test_every_name_survives_inform_and_names_one_thing(house, tmp_path):
    """All names compile, and every object and holder answers to its full name, with its room full of others.

    One game per connection: its two rooms and its door, a share of the holders, and a share of the things, never
    two states of one base in a game. The player carries all things and drops each by name.
    """
    shares: list[list[Misplaced]] = [[] for _ in house.connections]
    first = next(iter(house.holders))
    for number, base in enumerate(house.bases):
        for state, thing in enumerate(thing for thing in house.things if thing.base == base):
            shares[(number + state) % len(shares)].append(Misplaced(thing.name, base, None, (first,)))
    games = []
    for number, (way, things) in enumerate(zip(house.connections, shares, strict=True)):
        holders = [house.holders[first], *list(house.holders.values())[number :: len(shares)]]
        furniture = tuple(Furniture(h.name, h.kind, way.rooms[0]) for h in dict.fromkeys(holders))
        plan = GamePlan(way.rooms, way.rooms[0], "north", way.door, furniture, tuple(things))
        game = build_game(plan, f"names-{number}", {"seed": 0})
        game.quests = game.quests[:1]  # the Z-machine cannot hold a winning condition of forty quests
        games.append(game)
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(compile_game, games, [tmp_path / f"{number}.z8" for number in range(len(games))]))
    for path in paths:
        _check_names(path)


def _check_names(path: Path) -> None:
    import textworld

    env = textworld.start(str(path), textworld.EnvInfos(game=True))
    infos = env.reset().game.infos.values()
    for info in infos:
        if info.type in ("o", "s", "c", "d"):
            command = f"drop {info.name}" if info.type == "o" else f"examine {info.name}"
            feedback = env.step(command)[0].feedback.lower()
            assert info.name in feedback, (command, feedback)
            assert "which do you mean" not in feedback, (command, feedback)
    assert "carrying nothing" in env.step("inventory")[0].feedback


# Plans


def _bases(plans: list[GamePlan]) -> set[str]:
    return {thing.base for plan in plans for thing in plan.objects}


def _check_plan(house: House, plan: GamePlan, shape: Shape) -> None:
    """Everything that makes a plan a game: solvable, unsolved, of the right size."""
    assert (len(plan.rooms), len(plan.objects)) == (shape.rooms, shape.objects)
    assert plan.take == shape.objects - shape.carried
    assert plan.player in plan.rooms
    standing = {holder.name: holder.room for holder in plan.holders}
    assert len(standing) == len(plan.holders)
    for room in plan.rooms:
        assert HOLDERS_PER_ROOM[0] <= list(standing.values()).count(room) <= HOLDERS_PER_ROOM[1]
    for holder in plan.holders:
        assert holder.room in house.holders[holder.name].rooms
        assert holder.kind == house.holders[holder.name].kind
    assert len({thing.base for thing in plan.objects}) == len(plan.objects)
    places = {thing.name: thing.places for thing in house.things}
    for thing in plan.objects:
        assert thing.goals
        assert set(thing.goals) == set(places[thing.name]) & set(standing)
        assert thing.start is None or thing.start in {*plan.rooms, *standing} - set(thing.goals)
    ways = {connection.rooms: connection.door for connection in house.connections}
    if shape.rooms == 2:
        assert ways[plan.rooms] == plan.door
        assert plan.direction is not None
    else:
        assert (plan.door, plan.direction) == (None, None)


@given(seed=st.integers(0, 2**63 - 1), level=st.sampled_from(LEVELS), count=st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_plans_are_games_and_splits_share_no_object(house, seed, level, count):
    plans = plan_games(house, level, count, seed)
    assert tuple(plans) == SPLITS
    for split, members in plans.items():
        shapes = SHAPES[level][split]
        assert len(members) == count
        for index, plan in enumerate(members):
            _check_plan(house, plan, shapes[index % len(shapes)])
    assert not _bases(plans["out"]) & (_bases(plans["train"]) | _bases(plans["in"]))
    together = [plan for members in plans.values() for plan in members]
    assert len(set(together)) == len(together)
    assert len({plan.digest for plan in together}) == len(together)


@pytest.mark.parametrize("seed", range(5))
def test_the_split_is_two_thirds_of_the_base_objects_whatever_the_level(house, seed):
    train, out = split_bases(house, seed)
    assert not train & out
    assert train | out == set(house.bases)
    assert len(train) == round(len(house.bases) * 2 / 3)
    assert split_bases(house, seed) == (train, out)
    assert split_bases(house, seed + 1) != (train, out)
    for level in LEVELS:
        plans = plan_games(house, level, 5, seed)
        assert _bases(plans["train"]) | _bases(plans["in"]) <= train
        assert _bases(plans["out"]) <= out


def test_shapes_are_those_of_the_published_games(games_dir):
    folders = {"train": "train", "in": "valid", "out": "test"}
    for level, splits in SHAPES.items():
        for split, shapes in splits.items():
            found = []
            for path in (games_dir / "twc" / level / folders[split]).glob("*.json"):
                facts = json.loads(path.read_text())["world"]
                kinds = {a["name"]: a["type"] for fact in facts for a in fact["arguments"]}
                carried = sum(fact["name"] == "in" and fact["arguments"][1]["type"] == "I" for fact in facts)
                types = list(kinds.values())
                found.append(Shape(types.count("r"), types.count("o") + types.count("f"), carried))
            ours = [shapes[index % len(shapes)] for index in range(5)]
            assert sorted(map(repr, found)) == sorted(map(repr, ours)), (level, split)


@pytest.mark.parametrize("level", LEVELS)
def test_training_can_help_in_the_other_splits(house, level):
    """Over 40 seeds, 40 to 95 % of the things of IN and OUT games belong to a holder that training rewarded."""
    for split in ("in", "out"):
        familiar = []
        for seed in range(40):
            plans = plan_games(house, level, 5, seed)
            known = {goal for plan in plans["train"] for thing in plan.objects for goal in thing.goals}
            familiar += [bool(known & set(thing.goals)) for plan in plans[split] for thing in plan.objects]
        assert 0.4 < sum(familiar) / len(familiar) < 0.95


def test_misplaced_things_lie_everywhere(house):
    starts = []
    for seed in range(20):
        for members in plan_games(house, "hard", 5, seed).values():
            for plan in members:
                kinds = {holder.name: holder.kind for holder in plan.holders}
                starts += ["I" if t.start is None else kinds.get(t.start, "r") for t in plan.objects]
    assert set(starts) == {"I", "r", "s", "c"}
    assert 0.2 < starts.count("r") / len(starts) < 0.5


def test_more_games_keep_the_first_training_games(house):
    few, many = (plan_games(house, "medium", count, 3)["train"] for count in (2, 8))
    assert many[:2] == few


def test_a_house_that_is_too_small_says_so(house):
    laptop = tuple(thing for thing in house.things if thing.base == "laptop")
    tiny = House(("study",), (), {"desk": house.holders["desk"]}, laptop)
    drawer = Drawer(tiny, frozenset({"laptop"}), frozenset())
    plan = next(drawer.draws(Shape(1, 1, 0), ["study"], random.Random(0)))
    assert plan.holders == (Furniture("desk", "s", "study"),)
    assert list(drawer.draws(Shape(1, 2, 0), ["study"], random.Random(0))) == []
    assert list(drawer.draws(Shape(2, 1, 0), ["study"], random.Random(0))) == []
    with pytest.raises(GameError, match="too small for 3 different easy games"):
        plan_games(tiny, "easy", 3, 0)


# Compiled games


def _start(path: Path):
    import textworld

    wanted = textworld.EnvInfos(
        admissible_commands=True, won=True, lost=True, max_score=True, game=True, facts=True
    )
    env = textworld.start(str(path), wanted)
    return env, env.reset()


def _do(env, state, commands: set[str]):
    """Issue the one command of `commands` that is admissible, in the other room if not in this one."""
    possible = commands & set(state.admissible_commands)
    if not possible:
        (way,) = [command for command in state.admissible_commands if command.startswith("go ")]
        state = env.step(way)[0]
        possible = commands & set(state.admissible_commands)
    (command,) = possible
    return env.step(command)[0]


def _take_commands(name: str, state) -> set[str]:
    holders = [info.name for info in state.game.infos.values() if info.type in ("c", "s")]
    return {f"take {name}", *(f"take {name} from {holder}" for holder in holders)}


def _tidy(env, state, which: int):
    """Put every object into its first (`which` = 0) or last (-1) right holder; each one scores a point."""
    carried = {fact.arguments[0].name for fact in state.facts if str(fact).endswith(", I)")}
    for done, (name, goals) in enumerate(state.game.metadata["goal_locations"].items()):
        assert (state.score, state.won) == (done, False)
        if name not in carried:
            state = _do(env, state, _take_commands(name, state))
        state = _do(env, state, {f"put {name} on {goals[which]}", f"insert {name} into {goals[which]}"})
    return state


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_game_starts_unsolved_and_its_plan_wins(small_sets, level, split):
    (path,) = small_sets[level][split]
    for which in (0, -1):
        env, state = _start(path)
        assert (state.score, state.won, state.max_score) == (0, False, len(state.game.metadata["goal_locations"]))
        state = _tidy(env, state, which)
        assert (state.score, state.won, state.lost) == (state.max_score, True, False)


def test_a_wrong_holder_scores_nothing(small_sets):
    env, state = _start(small_sets["easy"]["train"][0])
    ((name, goals),) = state.game.metadata["goal_locations"].items()
    state = _do(env, state, _take_commands(name, state))
    places = [c for c in state.admissible_commands if c.startswith((f"put {name} on", f"insert {name} into"))]
    wrong = [command for command in places if not command.endswith(tuple(f" {goal}" for goal in goals))]
    assert len(wrong) >= 2
    for command in wrong:
        state = env.step(command)[0]
        assert (state.score, state.won) == (0, False)
        state = _do(env, state, _take_commands(name, state))


def test_hard_games_have_two_rooms_and_open_ways(small_sets):
    games = [_start(path)[1].game for paths in small_sets["hard"].values() for path in paths]
    assert [len(game.world.rooms) for game in games] == [1, 2, 2]
    for game in games:
        openable = [e.name for e in game.world.entities if e.type in ("c", "d")]
        opened = [fact.arguments[0].name for fact in game.world.facts if fact.name == "open"]
        assert sorted(opened) == sorted(openable)


@pytest.mark.parametrize("level", LEVELS)
def test_only_commands_of_the_published_games_are_admissible(small_sets, level):
    verbs = {"take", "drop", "put", "insert", "examine", "open", "close", "go", "look"}
    for paths in small_sets[level].values():
        env, state = _start(paths[0])
        assert "carrying" in env.step("inventory")[0].feedback
        rng, done = random.Random(0), False
        for _ in range(30):
            if not done:
                assert {command.split()[0] for command in state.admissible_commands} <= verbs
                state, _, done = env.step(rng.choice(state.admissible_commands))


def _shape_of(data):
    """The keys of nested JSON objects; a list is described by its first member."""
    if isinstance(data, dict):
        return {key: _shape_of(value) for key, value in data.items()}
    return [_shape_of(data[0])] if isinstance(data, list) and data else type(data).__name__


def test_the_json_is_built_like_the_published_one(small_sets, games_dir):
    ours = json.loads(small_sets["easy"]["train"][0].with_suffix(".json").read_text())
    theirs = json.loads(next((games_dir / "twc/easy/train").glob("*.json")).read_text())
    assert _shape_of(ours["quests"]) == _shape_of(theirs["quests"])
    assert ours.keys() == theirs.keys()
    assert ours["grammar"] == theirs["grammar"]
    assert ours["metadata"].keys() == theirs["metadata"].keys()
    assert ours["metadata"]["seeds"].keys() == theirs["metadata"]["seeds"].keys()
    assert ours["infos"][0][1].keys() == theirs["infos"][0][1].keys()


def test_metadata_tells_what_the_game_is(small_sets):
    (path,) = small_sets["hard"]["out"]
    data = json.loads(path.with_suffix(".json").read_text())
    metadata = data["metadata"]
    assert metadata["uuid"] == path.stem
    assert metadata["max_score"] == len(data["quests"]) == len(metadata["goal_locations"])
    assert metadata["config"] == {
        "level": "hard", "split": "out", "seed": 5, "objects": 6, "take": 5, "rooms": 2,
    }  # fmt: skip
    names = {info["name"] for _, info in data["infos"] if info["name"]}
    assert set(metadata["entities"]) == names
    assert str(HOUSE.parents[2]) not in path.with_suffix(".json").read_text()
    assert "site-packages" not in path.with_suffix(".json").read_text()


# The cache

SCRIPT = """
import json, logging, random, sys
from pathlib import Path
import numpy as np
from cbr_twc.generate import generated_games

lines = []
class Counter(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("cbr_twc").setLevel("INFO")
logging.getLogger("cbr_twc").addHandler(Counter())
random.seed(1)
np.random.seed(1)
assert "textworld" not in sys.modules
games = generated_games("medium", 1, 5, Path(sys.argv[1]))
calm = (random.random(), float(np.random.random()))
files = {split: [str(path) for path in paths] for split, paths in games.items()}
print(json.dumps({"files": files, "compiled": sum(line.startswith("compiled") for line in lines), "calm": calm}))
"""


@pytest.fixture(scope="session")
def three_processes(tmp_path_factory, cache) -> list[dict]:
    """Two processes that share a cache and a third with its own, at once; string hashes and folders differ."""
    shared = tmp_path_factory.mktemp("shared")
    running = []
    for hash_seed, folder in (("1", shared), ("2", shared), ("3", cache)):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        cwd = tmp_path_factory.mktemp("cwd")
        command = [sys.executable, "-c", SCRIPT, str(folder)]
        running.append(subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, text=True))
    answers = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    return [json.loads(answer) for answer in answers]


def test_two_processes_at_once_build_a_set_once(three_processes):
    first, second, third = three_processes
    assert first["files"] == second["files"]
    assert sorted([first["compiled"], second["compiled"]]) == [0, 3]
    assert third["compiled"] == 3
    for paths in first["files"].values():
        for path in paths:
            assert Path(path).is_file()
            assert Path(path).with_suffix(".json").is_file()
    left = {path.name for path in Path(first["files"]["train"][0]).parents[2].iterdir()}
    name = Path(first["files"]["train"][0]).parents[1].name
    assert left == {name, f".{name}.lock"}


def test_the_same_seed_gives_the_same_games_in_every_process(three_processes):
    first, _, third = three_processes
    for split in SPLITS:
        for one, other in zip(map(Path, first["files"][split]), map(Path, third["files"][split]), strict=True):
            assert one != other
            assert one.name == other.name
            for suffix in (".json", ".ni"):
                assert one.with_suffix(suffix).read_bytes() == other.with_suffix(suffix).read_bytes()


def test_global_random_states_are_left_alone(three_processes):
    import numpy as np

    calm = [random.Random(1).random(), float(np.random.RandomState(1).random())]
    assert [answer["calm"] for answer in three_processes] == [calm] * 3


def test_textworlds_own_generator_is_left_alone(house):
    import textworld

    (plan,) = plan_games(house, "easy", 1, 0)["train"]
    before = textworld.g_rng.seed
    games = [build_game(plan, "twice", {"seed": 0}) for _ in range(2)]
    assert textworld.g_rng.seed == before
    assert games[0].serialize() == games[1].serialize()


def test_other_seeds_levels_and_names_give_other_games(house):
    plans = plan_games(house, "easy", 1, 0)
    assert plans != plan_games(house, "easy", 1, 1)
    (plan,) = plans["train"]
    wordings = {
        build_game(plan, name, {"seed": seed}).infos["r_0"].desc for name in ("a", "b", "c") for seed in (0, 1, 2)
    }
    assert len(wordings) > 3


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """TextWorld looks for its compiler in INFORM_HOME."""
    monkeypatch.setenv("INFORM_HOME", str(tmp_path / "nothing here"))


def test_a_cache_hit_compiles_nothing(small_sets, cache, no_compiler, caplog):
    caplog.set_level(logging.INFO, "cbr_twc")
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    for level in LEVELS:
        assert generated_games(level, 1, 5, cache) == small_sets[level]
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
    assert caplog.messages == []


def test_without_a_compiler_the_error_says_so_and_nothing_is_left(tmp_path, no_compiler):
    with pytest.raises(GameError, match=r"cannot run the Inform compiler[\s\S]*INFORM_HOME"):
        generated_games("easy", 1, 0, tmp_path)
    assert [path.suffix for path in (tmp_path / "twc-generated").iterdir()] == [".lock"]


def test_a_game_that_inform_refuses_is_reported(house, tmp_path):
    (plan,) = plan_games(house, "easy", 1, 0)["train"]
    game = build_game(plan, "odd", {"seed": 0})
    game.infos["r_0"].desc = 'a "quoted" [word'
    with pytest.raises(GameError, match="Inform refuses the game odd"):
        compile_game(game, tmp_path / "odd.z8")


def test_a_damaged_set_is_made_again_and_progress_is_logged(small_sets, tmp_path, caplog):
    good = small_sets["easy"]["train"][0].parents[1]
    copy = tmp_path / "twc-generated" / good.name
    shutil.copytree(good, copy)
    game = next(copy.rglob("*.z8"))
    game.write_bytes(game.read_bytes()[:1000])
    caplog.set_level(logging.INFO, "cbr_twc")
    games = generated_games("easy", 1, 5, tmp_path)
    warning, *progress = caplog.messages
    assert "damaged" in warning
    assert [message.split()[1] for message in progress] == ["1/3", "2/3", "3/3"]
    assert read_set(copy) == games
    for split, (path,) in games.items():
        (before,) = small_sets["easy"][split]
        assert path.with_suffix(".json").read_bytes() == before.with_suffix(".json").read_bytes()
    assert {path.name for path in copy.parent.iterdir()} == {copy.name, f".{copy.name}.lock"}


def _fill(folder: Path, text: str = "a game") -> None:
    with new_set(folder) as fresh:
        (fresh / "train").mkdir()
        (fresh / "train" / "a.z8").write_text(text)
        (fresh / "train" / "a.json").write_text("{}")
        write_manifest(fresh, folder, {"train": ["train/a.z8"]})
        publish(fresh, folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: shutil.rmtree(folder),
        lambda folder: (shutil.rmtree(folder), folder.mkdir()),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text('{"splits": {"train": ["train/a.z8"]'),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text("5"),
        lambda folder: (folder / "manifest.json").write_text("[" * 100_000),
        lambda folder: (folder / "manifest.json").write_text('{"a": ' * 50_000 + "1" + "}" * 50_000),
        lambda folder: (folder / "manifest.json").write_bytes(b"\xff\xfe"),
        lambda folder: ((folder / "manifest.json").unlink(), (folder / "manifest.json").mkdir()),
        lambda folder: ((folder / "train" / "a.z8").unlink(), (folder / "train" / "a.z8").symlink_to("nowhere")),
        lambda folder: (folder / "manifest.json").write_text('{"splits": [], "sha256": {}}'),
        lambda folder: (folder / "train" / "a.json").unlink(),
        lambda folder: (folder / "train" / "a.json").write_text(""),
        lambda folder: (folder / "train" / "a.z8").write_text("a gama"),
        lambda folder: (shutil.rmtree(folder), folder.write_text("a file")),
    ],
)
def test_a_damaged_folder_is_no_set_and_can_be_replaced(tmp_path, damage):
    folder = tmp_path / "sets" / "easy"
    _fill(folder)
    assert read_set(folder) == {"train": [folder / "train" / "a.z8"]}
    damage(folder)
    assert read_set(folder) is None
    _fill(folder)
    assert read_set(folder) == {"train": [folder / "train" / "a.z8"]}
    assert list(folder.parent.iterdir()) == [folder]


def test_no_changed_bit_of_a_set_can_lie(tmp_path):
    """Neither of a game nor of the manifest, whose order of games and splits counts."""
    folder = tmp_path / "sets" / "easy"
    _fill(folder)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        sound = path.read_bytes()
        for seed in range(150):
            rng = random.Random(seed)
            changed = bytearray(sound)
            for _ in range(rng.choice([1, 1, 2, 9])):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            path.write_bytes(changed if seed % 3 else sound[: rng.randrange(len(sound))])
            assert path.read_bytes() == sound or read_set(folder) is None
        path.write_bytes(sound)
    assert read_set(folder) == {"train": [folder / "train" / "a.z8"]}


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["splits"].update(train=[]),
        lambda said: said["splits"].update(train=[5]),
        lambda said: said["splits"].update(train=["../../elsewhere.z8"]),
        lambda said: said["splits"].update({"in": said["splits"].pop("train")}),
        lambda said: said.update(splits=[["train", "train/a.z8"]]),
        lambda said: said["sha256"].clear(),
        lambda said: said["sha256"].pop("train/a.json"),
        lambda said: said.update(sha256=None),
        lambda said: said.update(checksum=None),
        lambda said: said.update(checksum=5),
        lambda said: said.pop("checksum"),
    ],
)
def test_a_manifest_that_says_something_else_is_none(tmp_path, change):
    folder = tmp_path / "sets" / "easy"
    _fill(folder)
    said = json.loads((folder / "manifest.json").read_text())
    change(said)
    (folder / "manifest.json").write_text(json.dumps(said))
    assert read_set(folder) is None


def test_a_set_under_the_name_of_another_is_none(tmp_path):
    """The name tells seed, level and what made it."""
    _fill(tmp_path / "sets" / "easy")
    other = tmp_path / "sets" / "hard"
    (tmp_path / "sets" / "easy").rename(other)
    assert read_set(other) is None


def test_the_faster_of_two_builders_stays(tmp_path):
    """Without file locks two processes may build the same set; who comes second leaves the first one's alone."""
    folder = tmp_path / "sets" / "easy"
    _fill(folder, "first")
    _fill(folder, "second")
    assert (folder / "train" / "a.z8").read_text() == "first"
    assert list(folder.parent.iterdir()) == [folder]


def test_a_set_that_is_not_finished_is_thrown_away(tmp_path):
    def interrupted() -> None:
        with new_set(tmp_path / "sets" / "easy") as fresh:
            (fresh / "half.z8").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "sets").iterdir()) == []


def test_a_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "twc-generated").write_text("a file in the way")
    with pytest.raises(GameError, match=r"cannot write generated games[\s\S]*cache folder"):
        generated_games("easy", 1, 0, tmp_path)


@pytest.mark.parametrize(
    ("level", "count", "message"),
    [
        ("eazy", 5, "Did you mean 'easy'"),
        ("", 5, "Choose one of"),
        ("easy", 0, "at least 1"),
        ("hard", -1, "at least 1"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, level, count, message):
    with pytest.raises(GameError, match=message):
        generated_games(level, count, 0, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_importing_the_generator_imports_nothing_heavy():
    code = "import sys, cbr_twc.generate; print([m for m in ('textworld', 'torch', 'yaml') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
