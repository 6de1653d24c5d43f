"""Finding, checking and compiling games: every fault is one clear GameError, before native code sees the file."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from report_pages import parsed
from twc_games import LEVELS, edit_json, json_files, published

from cbr_twc.compiling import story_file
from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbr_twc.files import GameFiles, check_story, find_games
from cbr_twc.generate import generated_games
from cbr_twc.reading import load_game
from cbrcore.cycle.evaluation import same_games
from cbrcore.errors import CbrError, GameError
from cbrcore.interfaces import Build
from cbrcore.types import Action


@pytest.fixture(scope="module")
def story(cache_dir) -> Path:
    """A compiled game with its .json beside it."""
    (path,) = generated_games("hard", 1, 0, cache_dir)["train"]
    return path


@pytest.fixture
def games(story, tmp_path) -> Path:
    """A benchmark folder with one good game, easy/train/good."""
    folder = tmp_path / "twc" / "easy" / "train"
    folder.mkdir(parents=True)
    for suffix in (".z8", ".json"):
        shutil.copy(story.with_suffix(suffix), folder / f"good{suffix}")
    return folder


def environment(folder: Path, **settings) -> TwcEnvironment:
    return TwcEnvironment(TwcConfig(games_dir=str(folder), **settings), Build(cache_dir=folder / "cache"))


def message(error: pytest.ExceptionInfo) -> str:
    return str(error.value)


# Where games are


def test_games_are_found_where_the_settings_or_the_variable_say(games, monkeypatch, tmp_path):
    monkeypatch.delenv("CBR_GAMES", raising=False)
    monkeypatch.setenv("PLACE", str(tmp_path))
    recipe = Build(recipe_dir=tmp_path)
    for spelled in ("twc", str(tmp_path / "twc"), "$PLACE/twc"):
        assert TwcEnvironment(TwcConfig(games_dir=spelled), recipe).games("train") == ("good",)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TwcEnvironment(TwcConfig(games_dir="~/twc"), Build()).games("train") == ("good",)
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    assert TwcEnvironment(TwcConfig(), Build()).games("train") == ("good",)


def test_no_folder_named_at_all_says_what_to_set(monkeypatch):
    monkeypatch.delenv("CBR_GAMES", raising=False)
    with pytest.raises(GameError, match=r"CBR_GAMES") as error:
        TwcEnvironment(TwcConfig(), Build()).games("train")
    assert "source: generate" in message(error)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("")])
def test_a_folder_that_is_none_is_named_with_its_origin(make, tmp_path, monkeypatch):
    make(tmp_path / "twc")
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))
    for config in (TwcConfig(), TwcConfig(games_dir=str(tmp_path / "twc"))):
        with pytest.raises(GameError, match=r"no such folder|is not a folder") as error:
            TwcEnvironment(config, Build()).games("train")
        assert str(tmp_path / "twc") in message(error)


def test_a_missing_split_says_what_is_there_instead(games):
    with pytest.raises(GameError, match="there is: train") as error:
        environment(games.parents[1]).games("in")
    assert str(games.parent / "valid") in message(error)
    with pytest.raises(GameError, match="there is: easy"):
        environment(games.parents[1], level="hard").games("train")


@pytest.mark.parametrize("found", [(), ("notes.txt", "zork1.z5"), (".hidden.json",)])
def test_a_folder_without_games_says_what_it_holds(found, tmp_path):
    for name in found:
        (tmp_path / name).write_text("")
    with pytest.raises(GameError, match="no games in") as error:
        find_games(tmp_path)
    assert ("zork1.z5" if "zork1.z5" in found else "nothing") in message(error)
    assert "NAME.z8 with NAME.json" in message(error)


def test_a_split_of_another_size_than_the_benchmarks_is_remarked(games, caplog):
    caplog.set_level(logging.WARNING, "cbr_twc")
    assert len(find_games(games)) == 1
    assert "holds 1 games" in caplog.text


# Damaged story files

STORY_FAULTS = {
    "empty": (lambda good: b"", "is empty"),
    "first half": (lambda good: good[: len(good) // 2], "cut short"),
    "first 32 bytes": (lambda good: good[:32], "cut short"),
    "header only": (lambda good: good[:64], "cut short"),
    "web page": (lambda good: b"\n<!DOCTYPE html><html>404</html>" + bytes(500), "HTML"),
    "Git LFS pointer": (lambda good: b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
    "version 3": (lambda good: b"\x03" + good[1:], "version 8"),
    "Glulx": (lambda good: b"Glul" + good[4:], "Glulx"),
    "blorb": (lambda good: b"FORM" + good[4:], "blorb"),
    "100 bytes inverted": (
        lambda good: good[:20000] + bytes(255 - byte for byte in good[20000:20100]) + good[20100:],
        "checksum",
    ),
}


@pytest.mark.parametrize("fault", STORY_FAULTS)
def test_a_damaged_story_is_named_with_its_fault(games, story, fault):
    damage, expected = STORY_FAULTS[fault]
    (games / "good.z8").write_bytes(damage(story.read_bytes()))
    with pytest.raises(GameError, match=expected) as error:
        find_games(games)
    assert str(games / "good.z8") in message(error)
    assert "json" in message(error)


def test_every_published_story_is_whole(games_dir):
    for path in json_files(games_dir):
        check_story(path.with_suffix(".z8"))


# What should be a file is none


@pytest.mark.parametrize("suffix", [".z8", ".json"])
def test_a_folder_named_like_a_game_is_none(games, suffix):
    (games / f"good{suffix}").unlink()
    (games / f"good{suffix}").mkdir()
    with pytest.raises(GameError, match="is a folder") as error:
        find_games(games)
    assert f"good{suffix}" in message(error)


@pytest.mark.parametrize("suffix", [".z8", ".json"])
def test_a_link_to_nowhere_is_said_to_be_one(games, suffix):
    (games / f"good{suffix}").unlink()
    (games / f"good{suffix}").symlink_to("/nowhere/at/all")
    with pytest.raises(GameError, match=r"a link to nowhere \(-> /nowhere/at/all\)"):
        find_games(games)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
@pytest.mark.parametrize("suffix", [".z8", ".json"])
def test_a_file_that_may_not_be_read_is_said_to_be_one(games, suffix):
    (games / f"good{suffix}").chmod(0)
    with pytest.raises(GameError, match="permission denied") as error:
        find_games(games)
    assert "chmod" in message(error)


@pytest.mark.parametrize("suffix", [".z8", ".ulx"])
def test_a_story_without_its_description_asks_for_it(games, suffix):
    (games / "good.z8").rename(games / f"good{suffix}")
    (games / "good.json").unlink()
    with pytest.raises(GameError, match=r"has no good\.json beside it") as error:
        find_games(games)
    assert "Copy good.json" in message(error)


# Damaged or foreign descriptions


@pytest.mark.parametrize("keep", [0, 5000, 0.5])
def test_a_half_written_description_is_named(games, keep):
    path = games / "good.json"
    text = path.read_text()
    path.write_text(text[: int(keep * len(text)) if isinstance(keep, float) else keep])
    with pytest.raises(GameError, match="damaged or only half there") as error:
        find_games(games)
    assert str(path) in message(error)


def test_bytes_that_are_no_text_are_named(games):
    (games / "good.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GameError, match=r"good\.json is damaged"):
        find_games(games)


@pytest.mark.parametrize("content", ["[]", "{}", '{"infos": [], "world": [], "quests": []}', '"text"', "3"])
def test_json_of_something_else_is_said_to_be_no_game(games, content):
    (games / "good.json").write_text(content)
    with pytest.raises(GameError, match=r"good\.json is not"):
        find_games(games)


@pytest.mark.parametrize("key", ["world", "infos", "quests", "KB"])
def test_a_description_that_lacks_a_part_names_it(games, key):
    edit_json(games / "good.json", lambda data: data.pop(key))
    with pytest.raises(GameError, match=key):
        find_games(games)


def lock_something(data):
    data["world"].append({"name": "locked", "arguments": [{"name": "c_0", "type": "c"}]})


def add_a_key(data):
    data["infos"].append(["k_0", {**data["infos"][-1][1], "id": "k_0", "type": "k", "name": "key"}])


def add_a_rule(data):
    data["KB"]["logic"] += "\n    rules {\n        eat :: in(o, I) -> eaten(o);\n    }\n"


def change_a_rule(data):
    data["KB"]["logic"] = data["KB"]["logic"].replace("drop :: $at(P, r)", "drop :: $at(P, r) & $at(c, r)")


def make_optional(data):
    data["quests"][0]["optional"] = True


def make_it_worth_more(data):
    data["quests"][0]["reward"] = 2


def ask_for_two_facts(data):
    conditions = data["quests"][0]["win_events"][0]["condition"]["preconditions"]
    conditions.append(data["quests"][1]["win_events"][0]["condition"]["preconditions"][0])


def solve_it(data):
    (fact,) = data["quests"][0]["win_events"][0]["condition"]["preconditions"]
    thing = fact["arguments"][0]["name"]
    data["world"] = [old for old in data["world"] if thing not in [a["name"] for a in old["arguments"]]] + [fact]


def use_another_notation(data):
    room = next(info for _, info in data["infos"] if info["type"] == "r")
    room["desc"] += "[one of]a[or]b[at random]"


def name_two_alike(data):
    first, second = [info for _, info in data["infos"] if info["type"] == "o"][:2]
    second["name"] = first["name"].upper()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lock_something, "locked"),
        (add_a_key, "'k'"),
        (add_a_rule, "eat"),
        (change_a_rule, "drop"),
        (make_optional, "optional"),
        (make_it_worth_more, "one point"),
        (ask_for_two_facts, "more than one thing"),
        (solve_it, "in its place from the start"),
        (use_another_notation, "one of"),
        (name_two_alike, "share the name"),
    ],
)
def test_a_game_of_another_kind_is_refused_rather_than_played_wrongly(games, change, expected):
    edit_json(games / "good.json", change)
    with pytest.raises(GameError, match="is not a TWC game") as error:
        load_game(games / "good.json")
    assert expected in message(error)


# Sets of games


RECIPE = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"


def test_a_game_of_the_training_that_is_measured_on_is_said_wherever_it_matters(games, story, tmp_path, here):
    """Found by content: name, file and metadata are others."""
    for folder, name, source in (("valid", "other", games / "good.json"), ("test", "new", None)):
        to = games.parent / folder
        to.mkdir()
        source = source or generated_games("hard", 1, 1, story.parents[3])["train"][0].with_suffix(".json")
        shutil.copy(source, to / f"{name}.json")
        edit_json(to / f"{name}.json", lambda data: data.update(metadata={"desc": "another one"}))
    sets = (f"environment={{use: cbr_twc/twc, games_dir: {tmp_path / 'twc'}, max_steps: 3}}", "run.episodes=1",
            "training.pretrain.episodes=0", "evaluation.passes=1")  # fmt: skip
    run = tmp_path / "run"
    done = here("run", RECIPE, *(word for each in sets for word in ("--set", each)), "--out", run)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("one game counts several times: train/good = in/other\n") == 1
    assert (run / "run.log").read_text().count("one game counts several times: train/good = in/other\n") == 1
    assert json.loads((run / "results.json").read_text())["protocol"]["duplicates"] == [["train/good", "in/other"]]
    told = here("report", run, "--no-decisions")
    assert "one game counts several times: train/good = in/other" in told.stderr
    page = parsed((run / "report.html").read_text())
    head, row = page.tables["protocol"]
    assert dict(zip(head, row, strict=True))["Duplicates"] == "train/good = in/other"


def test_the_published_games_are_all_different(games_dir):
    for level in (*LEVELS, "all"):
        assert same_games(published(games_dir, level)) == []


@pytest.mark.parametrize("level", LEVELS)
def test_generated_games_are_all_different(level, cache_dir):
    config = TwcConfig(source="generate", level=level, games_per_split=1)
    assert same_games(TwcEnvironment(config, Build(cache_dir=cache_dir))) == []


def test_the_same_game_twice_in_a_split_is_refused(games):
    for suffix in (".z8", ".json"):
        shutil.copy(games / f"good{suffix}", games / f"other{suffix}")
    edit_json(games / "other.json", lambda data: data["metadata"].update(uuid="other"))
    with pytest.raises(GameError, match="same game as good") as error:
        find_games(games)
    assert "other.json" in message(error)


@pytest.fixture
def three_levels(games) -> Path:
    """The folder with the same good game to train on in each level."""
    root = games.parents[1]
    for level in ("medium", "hard"):
        shutil.copytree(games, root / level / "train")
    return root


@pytest.mark.parametrize("settings", [{"train_level": "all"}, {"level": "all"}])
def test_the_same_game_in_two_levels_of_a_split_is_refused(three_levels, settings):
    with pytest.raises(GameError, match=r"medium/train/good\.json is the same game as .*easy/train/good\.json"):
        environment(three_levels, **settings).games("train")


def test_two_games_of_one_name_in_two_levels_that_are_trained_on_are_refused(three_levels):
    for number, level in enumerate(("medium", "hard"), start=1):
        edit_json(
            three_levels / level / "train" / "good.json",
            lambda data, n=number: data["quests"].__delitem__(slice(n)),
        )
    with pytest.raises(
        GameError, match=r"medium/train/good\.json and .*easy/train/good\.json are two games of one name"
    ):
        environment(three_levels, train_level="all").games("train")


@pytest.mark.parametrize("value", ["hardest", "ALL", "''", "3", "[easy, hard]", "true"])
def test_a_level_to_train_on_that_there_is_not_is_said_before_anything_runs(here, value):
    done = here("check", RECIPE, "--set", f"environment.train_level={value}")
    assert done.returncode == 2
    assert "environment.train_level" in done.stderr
    assert "'easy', 'medium', 'hard' or 'all'" in done.stderr


def test_two_games_of_one_name_in_two_splits_are_refused_but_not_one_game(games):
    other = shutil.copytree(games, games.parent / "test")
    playing = environment(games.parents[1])
    assert playing.games("train") == playing.games("out")
    edit_json(other / "good.json", lambda data: data["quests"].pop())
    playing = environment(games.parents[1])
    playing.games("train")
    with pytest.raises(GameError, match="two games of one name"):
        playing.games("out")


def test_other_files_beside_the_games_are_ignored(games):
    for name in ("entities.txt", "conceptnet_subgraph.txt", "good.ni", "._good.json"):
        (games / name).write_text("")
    assert [game.name for game in find_games(games)] == ["good"]


# Compiling


@pytest.fixture
def json_only(games) -> Path:
    (games / "good.z8").unlink()
    (games / "good.ulx").write_bytes(b"Glul")
    return games


def test_a_description_alone_is_compiled_once_into_the_cache(json_only, tmp_path, caplog):
    caplog.set_level(logging.INFO, "cbr_twc")
    before = {path: path.read_bytes() for path in json_only.iterdir()}
    json_only.chmod(0o555)
    cache = tmp_path / "cache"
    (game,) = find_games(json_only)
    compiled = story_file(game, cache)
    assert "compiling good" in caplog.text
    check_story(compiled)
    first = compiled.read_bytes()
    assert story_file(game, cache) == compiled
    assert caplog.text.count("compiling good") == 1
    assert {path: path.read_bytes() for path in json_only.iterdir()} == before
    assert {path.name for path in compiled.parent.iterdir()} == {compiled.name, f"{compiled.name}.seal"}

    changed = bytearray(first)
    changed[0x12] ^= 4  # in the header, where the story's own checksum does not reach
    compiled.write_bytes(changed)
    check_story(compiled)
    assert story_file(game, cache) == compiled
    assert compiled.read_bytes() != changed
    assert caplog.text.count("compiling good") == 2
    assert caplog.text.count("made anew") == 1
    json_only.chmod(0o755)


def test_two_processes_compile_the_same_game_at_once(json_only, tmp_path):
    code = (
        "import sys; from pathlib import Path; from cbr_twc.files import find_games, check_story;"
        "from cbr_twc.compiling import story_file;"
        "check_story(story_file(find_games(Path(sys.argv[1]))[0], Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, str(json_only), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert sorted(path.suffix for path in (tmp_path / "cache" / "twc").iterdir()) == [".seal", ".z8"]


def test_a_game_that_cannot_be_compiled_is_named(json_only, tmp_path):
    edit_json(json_only / "good.json", lambda data: data["infos"][2][1].update(desc='a "quoted [if text'))
    with pytest.raises(GameError, match=r"good\.json cannot be compiled"):
        story_file(GameFiles(json_only / "good.json", None), tmp_path / "cache")
    assert list((tmp_path / "cache" / "twc").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(json_only, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    (game,) = find_games(json_only)
    with pytest.raises(GameError, match="cannot write") as error:
        story_file(game, tmp_path / "cache")
    assert str(tmp_path / "cache") in message(error)


def test_hashes_tell_content_apart(games):
    (game,) = find_games(games)
    before = game.sha256, game.content
    edit_json(games / "good.json", lambda data: data["metadata"].update(uuid="renamed"))
    (renamed,) = find_games(games)
    assert renamed.sha256 != before[0]
    assert renamed.content == before[1]
    edit_json(games / "good.json", lambda data: data["quests"].pop())
    (changed,) = find_games(games)
    assert changed.content != before[1]


# One rule for paths, and copies for native code


@pytest.mark.parametrize(
    ("games_dir", "said"),
    [
        ("$NOPE/twc", r"holds \$NOPE, which is not set"),
        ("${NOPE}/twc", r"holds \$NOPE, which is not set"),
        ("~nobody_here/twc", "this machine does not know"),
        ("nowhere", r"nowhere: a link to nowhere \(-> /no/where\)"),
        ("$HERE/nowhere", r"nowhere: a link to nowhere \(-> /no/where\)"),
        ("missing", "missing: no such folder"),
        ("file", "file: is not a folder"),
        ("", "is not a path"),
    ],
)
def test_paths_of_games_are_read_by_one_rule(tmp_path, monkeypatch, games_dir, said):
    monkeypatch.setenv("HERE", str(tmp_path))
    (tmp_path / "nowhere").symlink_to("/no/where")
    (tmp_path / "file").touch()
    with pytest.raises(CbrError, match=said):
        TwcEnvironment(TwcConfig(games_dir=games_dir), Build(recipe_dir=tmp_path)).games("train")


@pytest.mark.parametrize("change", ["removed", "damaged", "cut short"])
def test_a_story_that_changes_after_it_was_checked_never_reaches_native_code(games, change):
    story = games / "good.z8"
    made = environment(games.parents[1])
    assert made.games("train") == ("good",)
    content = story.read_bytes()
    story.write_bytes(content[:1000] if change == "cut short" else content[::-1])
    if change == "removed":
        story.unlink()
    with pytest.raises(GameError, match=r"good\.z8"):
        made.reset("good", 0)
    story.write_bytes(content)
    first = made.reset("good", 0)
    story.unlink()
    made._engines.close()
    assert made.reset("good", 0) == first  # what was read once is kept
    made.close()


@pytest.mark.parametrize("folder", ["long/" * 60, "with space", "caffè 🎲", "-o"])
def test_the_path_of_a_story_never_reaches_native_code(games, tmp_path, monkeypatch, folder):
    there = tmp_path / folder
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(games.parents[1], there)
    seen = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    import jericho

    real = jericho.FrotzEnv
    monkeypatch.setattr(jericho, "FrotzEnv", lambda path, seed: seen.append(Path(path)) or real(path, seed))
    made = environment(there)
    assert made.step(made.reset("good", 0).admissible[0]).observation.feedback
    assert [path.name for path in seen] == ["story.z8"]
    assert not seen[0].parent.exists()
    made.close()


@pytest.mark.parametrize(
    "line",
    ["look. inventory", "look.inventory", "look, inventory", "look then inventory", "look and look", "look\nlook",
     "quit", "restart", "SAVE", "restore", "undo", "again", "g", "oops", "script", "#random", "\\x", '"look"'],
)  # fmt: skip
def test_what_is_no_single_command_of_these_games_is_refused(games, line):
    made = environment(games.parents[1], verify="never")
    made.reset("good", 0)
    with pytest.raises(GameError):
        made.step(Action(line, line))
    assert made._plays["good"]._interpreter._history == []
    made.close()
