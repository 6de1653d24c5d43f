"""A resumed run is the run that was never stopped, byte for byte, or it is refused. Through the command line, on
the toy game as a loose plugin."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from run_folders import same

from cbr_memory.files import read_cases, write_cases
from cbrcore.console import graceful_interrupt
from cbrcore.errors import RunFailed, RunFolderError
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs import working
from cbrcore.runs.checkpoint import latest_checkpoint, read_state
from cbrcore.runs.files import damaged, seal
from cbrcore.runs.folder import RunFolder, holds_nothing, stored_recipe
from cbrcore.runs.resuming import MAY_CHANGE

TESTS = Path(__file__).parent
PLUGIN = TESTS / "toy_plugin.py"
SMOKE = TESTS.parent / "recipes" / "smoke" / "text_cbr_generated.yaml"
TOY = {
    "environment": "{use: toy_plugin/toy}",
    "training.pretrain.episodes": "4",
    "training.pretrain.epochs": "1",
    "training.retriever_learning_rate": "0.01",
    "memory.threshold": "0.1",
    "run.episodes": "6",
    "run.checkpoint_every": "50",
    "recorders": "[]",
}


class Toy:
    """Runs the command line in this process, with the toy game."""

    def __init__(self, here, monkeypatch) -> None:
        self.here, self._monkeypatch = here, monkeypatch
        monkeypatch.setattr("cbrcore.runs.trainer.FREE_SECONDS", 1e9)  # on a busy machine, too

    def __call__(self, *words, trouble: str = "", plugin: bool = True):
        self._monkeypatch.setenv("TOY_TROUBLE", trouble)
        return self.here(*words, *(["--plugin", PLUGIN] if plugin else []))

    def run(self, out: Path, *words, code: int = 0, trouble: str = "", **settings):
        sets = [word for item in (TOY | settings).items() for word in ("--set", f"{item[0]}={item[1]}")]
        done = self("run", SMOKE, *sets, "--out", out, *words, trouble=trouble)
        assert done.returncode == code, done.stderr
        return done

    def resume(self, out: Path, *words, code: int = 0, **more):
        done = self("run", "--resume", out, *words, **more)
        assert done.returncode == code, done.stderr
        return done


@pytest.fixture
def toy(here, monkeypatch) -> Toy:
    return Toy(here, monkeypatch)


# -- what starts a run -----------------------------------------------------------------------------------------

JOINT = {"agent": "{use: cbr_joint/joint, agent: {use: cbr_text/text, unit: sentence, hidden: 8}}"}

GOALS = {
    "context_encoder": "{use: cbr_goals/names}",
    "quantizer": "{use: cbr_goals/kernel}",
    "memory": "{use: cbr_goals/evidence}",
}


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ("nothing", {}),
        ("retriever", {}),
        ("retriever", {"quantizer": "{use: cbr_continuous/continuous}", "memory.refresh": "true"}),
        ("cases", {"training.pretrain.episodes": "0"}),
        ("cases", {"memory.outcome": "both"}),
        ("cases retriever", {}),
        ("nothing", JOINT),
        ("nothing", GOALS),
        ("cases retriever", JOINT),
    ],
)
def test_what_starts_a_run_is_done_once_and_may_be_gone_afterwards(toy, tmp_path, given, settings):
    sets = [word for item in (TOY | settings).items() for word in ("--set", f"{item[0]}={item[1]}")]
    for name in given.split():
        folder = tmp_path / name
        if name == "retriever":
            assert toy("pretrain", SMOKE, *sets, "--collector", "random", "--out", folder).returncode == 0
            settings = settings | {"training.pretrain.retriever": folder}
        elif name == "cases":
            toy.run(tmp_path / "source", **settings)
            assert toy("cases", "export", tmp_path / "source", folder, plugin=False).returncode == 0
            settings = settings | {"memory.cases": folder}
    toy.run(tmp_path / "straight", **settings)
    own = "retriever" not in given and settings.get("training.pretrain.episodes") != "0"
    toy.run(tmp_path / "stopped", code=130, trouble=f"{14 if own else 6}:stop", **settings)
    assert 5 < len((tmp_path / "stopped" / "metrics.jsonl").read_text().splitlines()) < 12
    for name in given.split():
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    toy.resume(tmp_path / "stopped")
    same(tmp_path / "straight", tmp_path / "stopped")


# -- what may change -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(here, tmp_path_factory) -> Path:
    """A run that was stopped after its sixth play, with checkpoints after four and six of them, to be copied."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("stopped") / "run"
        more = {"training.pretrain.episodes": "0", "run.checkpoint_every": "2"}
        Toy(here, patch).run(folder, code=130, trouble="6:stop", **more)
    return folder


@pytest.fixture(scope="module")
def straight(here, stopped) -> Path:
    """The same run, never stopped."""
    with pytest.MonkeyPatch.context() as patch:
        folder = stopped.with_name("straight")
        more = {"training.pretrain.episodes": "0", "run.checkpoint_every": "2"}
        Toy(here, patch).run(folder, **more)
    return folder


@pytest.fixture
def copied(stopped, tmp_path) -> Path:
    return shutil.copytree(stopped, tmp_path / "run")


FREE = {
    "name": "other",
    "evaluation.passes": "2",
    "recorders": "[{use: cbr_tensorboard/tensorboard}]",
    "run.checkpoint_every": "3",
    "memory.cases": "/nowhere",
    "training.pretrain.retriever": "/nowhere",
}
REFUSED = {
    "seed": "1",
    "training.gamma": "0.5",
    "run.num_envs": "2",
    "run.device": "cpu",
    "memory.threshold": "0.2",
    "training.pretrain.episodes": "3",
    "agent.hidden": "16",
    "run.episodes": "2",
}


def test_what_may_change_changes_nothing_and_is_told_and_recorded(toy, copied, straight):
    words = [word for item in FREE.items() for word in ("--set", f"{item[0]}={item[1]}")]
    done = toy.resume(copied, *words)
    assert all(f"note: resumed with another setting: {path}" in done.stderr for path in set(FREE) - {"recorders"})
    for name in ("metrics.jsonl", "memory/cases.jsonl", "memory/keys.safetensors"):
        assert (copied / name).read_bytes() == (straight / name).read_bytes()
    facts = json.loads((copied / "versions.json").read_text())
    first, second = facts["starts"]
    assert (first["after"], first["changed"], second["after"]) == (0, {}, 6)
    assert second["changed"]["evaluation.passes"] == [1, 2]
    assert first["plugin_files"] == {str(PLUGIN): hashlib.sha256(PLUGIN.read_bytes()).hexdigest()}


@pytest.mark.parametrize("path", REFUSED)
def test_another_setting_would_make_another_run_and_is_refused(toy, copied, path):
    before = (copied / "recipe.yaml").read_bytes()
    done = toy.resume(copied, "--set", f"{path}={REFUSED[path]}", code=2)
    assert path in done.stderr
    assert "new run" in done.stderr
    assert (copied / "recipe.yaml").read_bytes() == before
    toy.resume(copied)


def test_a_budget_may_grow_and_shrink_to_what_is_done(toy, copied, straight):
    toy.resume(copied, "--set", "run.episodes=3")
    assert len((copied / "metrics.jsonl").read_text().splitlines()) == 6
    toy.resume(copied, "--set", "run.episodes=6")
    same(straight, copied)


def test_a_budget_that_cut_a_round_of_games_short_cannot_grow(toy, tmp_path):
    """Two of four games were played in the last round; a longer run would have played four."""
    toy.run(tmp_path / "run", **{"training.pretrain.episodes": "0", "run.episodes": "3", "run.num_envs": "4"})
    done = toy.resume(tmp_path / "run", "--set", "run.episodes=6", code=2)
    assert "not by whole rounds" in done.stderr
    toy.resume(tmp_path / "run")


def files_of(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("wrong", ["rows", "budget", "encoders", "recorder", "checkpoints"])
def test_a_resume_that_is_refused_leaves_the_finished_run_as_it_was(toy, straight, tmp_path, wrong):
    """Its rows, its cases, its times, and what is known of damage; the log tells of the attempt."""
    run = Path(shutil.copytree(straight, tmp_path / "run"))
    sets: list[str] = []
    if wrong == "rows":
        rows = (run / "metrics.jsonl").read_text()
        (run / "metrics.jsonl").write_text(rows.replace('"episode": 1,', '"episode": 7,', 1) + "{}\n")
    elif wrong == "budget":
        sets = ["--set", "run.episodes=2"]
    elif wrong == "recorder":
        sets = ["--set", "recorders=[{use: toy_plugin/refusing}]"]
    elif wrong == "checkpoints":
        shutil.rmtree(run / "checkpoints")
    else:
        for checkpoint in (run / "checkpoints").iterdir():
            stored = read_cases(checkpoint / "memory")
            write_cases(checkpoint / "memory", replace(stored, identity="another"))
            seal(checkpoint)
    before, told = files_of(run), damaged(run)
    done = toy.resume(run, *sets, code=2)
    assert ("checkpoints are gone" in done.stderr) is (wrong == "checkpoints")
    after = files_of(run)
    assert {name for name in before if before[name] != after.get(name)} <= {"run.log"}
    assert damaged(run) == told
    assert ("metrics.jsonl" in str(told)) is (wrong == "rows")


@pytest.mark.parametrize("read", ["cases", "cases of a variable", "retriever", "run"])
def test_a_run_never_replaces_what_it_reads(toy, straight, tmp_path, monkeypatch, read):
    monkeypatch.setenv("MY_RUN", str(tmp_path / "run"))
    run = Path(shutil.copytree(straight, tmp_path / "run"))
    (run / "retriever.safetensors").touch()  # as `cbr pretrain` has it
    before = files_of(run)
    key, value = {
        "cases": ("memory.cases", run / "memory"),
        "cases of a variable": ("memory.cases", "$MY_RUN/memory"),
        "retriever": ("training.pretrain.retriever", os.path.relpath(run, SMOKE.parent)),
        "run": ("training.pretrain.file", run),
    }[read]
    if read == "run":
        done = toy("run", "--from", run, "--out", run, "--overwrite")
        assert done.returncode == 2
    else:
        done = toy.run(run, "--overwrite", code=2, **{key: value})
    assert f"cannot be replaced: {key} reads {run}" in done.stderr
    assert files_of(run) == before
    copy = shutil.copytree(run, tmp_path / "copy")
    if read == "cases":
        toy.run(run, "--overwrite", **{key: copy / "memory"})


def test_a_run_that_a_recorder_refuses_leaves_no_folder(toy, tmp_path):
    done = toy.run(tmp_path / "run", code=2, recorders="[{use: toy_plugin/refusing}]")
    assert "no server" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_was_edited_by_hand_is_told_from_the_one_that_began(toy, copied):
    recipe = (copied / "recipe.yaml").read_text()
    (copied / "recipe.yaml").write_text(recipe.replace("gamma: 0.9", "gamma: 0.8"))
    done = toy.resume(copied, code=2)
    assert "training.gamma was 0.9, now 0.8" in done.stderr
    assert "put these settings back" in done.stderr


def test_the_table_of_what_may_change_is_that_of_the_page(toy):
    page = (TESTS.parent / "docs" / "runs.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| may be another at a resume \|.*?\n\n", page, re.DOTALL)
    rows = [re.findall(r"`([\w.]+)`", line.split("|")[1]) for line in table.strip().splitlines()[2:]]
    assert [path for row in rows for path in row] == list(MAY_CHANGE)


@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_a_plugin_file_is_asked_for_and_a_changed_one_is_told(toy, copied, tmp_path, command):
    words = ["run", "--resume", copied] if command == "run" else ["evaluate", copied]
    done = toy(*words, plugin=False)
    assert done.returncode == 2
    assert f"add --plugin {PLUGIN}" in done.stderr
    facts = json.loads((copied / "versions.json").read_text())
    facts["starts"][0]["plugins"]["toy_plugin"] = f"{PLUGIN} sha256:0123"
    (copied / "versions.json").write_text(json.dumps(facts))
    done = toy(*words)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"warning: not as it was when the run began.*plugins.toy_plugin was .*sha256:0123", done.stderr
    )


def test_the_printed_command_names_the_plugin_file(toy, tmp_path):
    done = toy.run(tmp_path / "run", code=130, trouble="2:stop", **{"training.pretrain.episodes": "0"})
    assert f"cbr run --resume {tmp_path / 'run'} --plugin {PLUGIN}" in done.stderr


def test_another_number_of_threads_is_told(toy, copied):
    torch.set_num_threads(2)
    try:
        assert "torch_threads was 1, now 2" in toy.resume(copied).stderr
    finally:
        torch.set_num_threads(1)


# -- metrics.jsonl ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "empty", "half", "nul", "flipped", "torn"])
def test_a_run_whose_rows_are_lost_is_refused(toy, copied, damage):
    path = copied / "metrics.jsonl"
    data = path.read_bytes()
    changed = {
        "empty": b"",
        "half": data[: len(data) // 2],
        "nul": data[:100] + bytes(50) + data[150:],
        "flipped": data[:200] + bytes([data[200] ^ 4]) + data[201:],
        "torn": data[:-20] + b"\n" + data[-19:],
    }
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    done = toy.resume(copied, code=2)
    assert str(path) in done.stderr
    assert f"{len(data)} bytes" in done.stderr
    assert f"cbr evaluate {copied}" in done.stderr
    path.write_bytes(data)
    toy.resume(copied)


# -- damaged files ---------------------------------------------------------------------------------------------


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "flipped":
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    else:
        path.write_bytes(b"" if how == "empty" else data[:-1])


WRONG_STARTS = ["5", "[5]", '{"a": 1}', '"xy"', "[{}, null]", '[{"x": NaN}]', '[{"x": 1e999}]']


@pytest.mark.parametrize("starts", WRONG_STARTS)
def test_versions_that_are_none_are_refused_with_what_to_do(toy, copied, straight, starts):
    path = copied / "versions.json"
    path.write_text(f'{{"starts": {starts}}}')
    done = toy.resume(copied, code=2)
    said, hint = done.stderr[done.stderr.index("error: ") :].splitlines()
    assert said.startswith(f"error: {path}: cannot be read: ")
    assert hint == f"  put a copy of it back, or remove it: rm {path}"
    path.unlink()
    toy.resume(copied)
    same(straight, copied)


def half(path: Path, *keys: str | int, value: object = "b\udcff") -> None:
    """Put half characters into a JSON file, as a key and as its value."""
    data = json.loads(path.read_text())
    there = data
    for key in keys:
        there = there[key]
    there |= {"a\ud800": value}
    path.write_text(json.dumps(data))


def test_half_characters_in_the_files_of_a_run_stop_nothing(toy, copied, straight):
    newest = latest_checkpoint(copied / "checkpoints")
    half(copied / "versions.json", "starts", 0)
    half(newest / "state.json", "progress", "endings", value=1)
    seal(newest, "state.json")
    toy.resume(copied)
    assert json.loads((copied / "versions.json").read_text())["starts"][0]["a\ud800"] == "b\udcff"
    half(copied / "results.json")
    half(copied / "results.json", "evaluation")
    assert toy("evaluate", copied).returncode == 0
    assert toy("report", copied, "--no-decisions", "--out", copied.with_name("report.html")).returncode == 0


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "flipped"])
def test_of_a_damaged_checkpoint_the_one_before_is_used_and_told(copied, caplog, how):
    newest, before = sorted((copied / "checkpoints").iterdir(), reverse=True)
    files = [path.relative_to(newest) for path in newest.rglob("*") if path.is_file()]
    assert {"state.json", "tensors.safetensors", "checksums.json", "memory/cases.jsonl"} <= set(map(str, files))
    whole = shutil.copytree(newest, copied / "whole")
    for file in files:
        if (newest / file).stat().st_size == 0:
            continue
        caplog.clear()
        damage(newest / file, how)
        assert latest_checkpoint(copied / "checkpoints") == before, file
        assert file.name in caplog.text or file.name == "checksums.json"
        assert "the checkpoint before it is used" in caplog.text
        shutil.copy(whole / file, newest / file)
        assert latest_checkpoint(copied / "checkpoints") == newest


def test_a_run_goes_on_from_the_checkpoint_before(toy, copied, straight):
    damage(latest_checkpoint(copied / "checkpoints") / "state.json", "empty")
    done = toy.resume(copied)
    assert done.stderr.count("state.json is empty") == 1
    assert (copied / "run.log").read_text().count("state.json is empty") == 1
    same(straight, copied)


def test_with_no_checkpoint_that_can_be_used_a_run_is_refused(toy, copied):
    for checkpoint in (copied / "checkpoints").iterdir():
        damage(checkpoint / "memory" / "cases.jsonl", "empty")
    for words in (["run", "--resume", copied], ["evaluate", copied], ["cases", copied]):
        done = toy(*words, plugin=words[0] != "cases")
        assert done.returncode == 2
        assert done.stderr.count("memory/cases.jsonl is empty") == 2


def test_evaluate_says_what_it_measures_and_does_not_overwrite_later_figures(toy, straight, tmp_path):
    run = shutil.copytree(straight, tmp_path / "run")
    done = toy("evaluate", run)
    assert done.returncode == 0
    assert "after 12 game plays" in done.stderr
    results = (run / "results.json").read_bytes()
    assert results == (straight / "results.json").read_bytes()
    damage(run / "checkpoints" / "00000012" / "state.json", "empty")
    done = toy("evaluate", run)
    assert done.returncode == 2
    assert "after 12 game plays; the newest checkpoint is after 10" in done.stderr
    assert (run / "results.json").read_bytes() == results
    (run / "results.json").unlink()
    assert toy("evaluate", run).returncode == 0
    assert json.loads((run / "results.json").read_text())["training"]["episodes"] == 10


def resealed(run: Path, name: str, text: str) -> Path:
    """The run, with another text in this file, as if it had been written so."""
    (run / name).write_text(text)
    seal(run, name)
    return run


WRONG_RESULTS = {
    "deep": "[" * 200_000, "number": "5", "null": "null", "list": "[]", "empty": "{}",
    "evaluation": '{"training": {"episodes": 12}, "evaluation": 5, "protocol": {"games": {}}, "name": "x"}',
    "split": '{"training": {"episodes": 12}, "evaluation": {"in": {}}, "protocol": {"games": {}}, "name": "x"}',
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_RESULTS)
def test_results_that_are_none_are_measured_anew(wrong, toy, straight, tmp_path):
    run = resealed(shutil.copytree(straight, tmp_path / "run"), "results.json", WRONG_RESULTS[wrong])
    done = toy("evaluate", run)
    assert done.returncode == 0, done.stderr
    assert "results.json is not what a run writes" in done.stderr or "cannot be read" in done.stderr
    assert (run / "results.json").read_bytes() == (straight / "results.json").read_bytes()


@pytest.mark.parametrize("name", ["versions.json", "checksums.json", "checkpoints/00000012/state.json"])
def test_what_is_nested_too_deeply_is_said_to_be_damaged(name, toy, straight, tmp_path):
    run = shutil.copytree(straight, tmp_path / "run")
    (run / name).write_text("[" * 200_000)
    if name == "versions.json":
        seal(run, name)
    if name == "checksums.json":
        assert damaged(run) == ["checksums.json is damaged"]
    done = toy("evaluate", run)
    assert done.returncode == (0 if name == "checksums.json" else 2), done.stderr
    assert "the run failed" not in done.stderr
    assert Path(name).name in done.stderr or name == "checksums.json"


def test_every_flipped_bit_of_a_finished_run_is_found(straight, tmp_path):
    run = shutil.copytree(straight, tmp_path / "run")
    assert damaged(run) == []
    rng = np.random.default_rng(0)
    names = (
        "recipe.yaml",
        "versions.json",
        "metrics.jsonl",
        "results.json",
        "memory/cases.jsonl",
        "checksums.json",
    )
    for name in [*names, "memory/keys.safetensors", "memory/situations.jsonl"]:
        data = (run / name).read_bytes()
        for _ in range(20):
            at, bit = int(rng.integers(len(data))), 1 << int(rng.integers(8))
            (run / name).write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            assert damaged(run), (name, at, bit)
        (run / name).write_bytes(data)
    assert damaged(run) == []


def test_a_checkpoint_of_the_version_before_has_no_checksums_and_is_used(toy, copied, straight):
    for checkpoint in (copied / "checkpoints").iterdir():
        state = json.loads((checkpoint / "state.json").read_text())
        state = {name: state[name] for name in ("torch", "progress", "streams")} | {"format": 2}
        (checkpoint / "state.json").write_text(json.dumps(state))
        (checkpoint / "checksums.json").unlink()
    (copied / "checksums.json").unlink()
    toy.resume(copied)
    same(straight, copied)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_what_may_not_be_read_is_not_said_to_be_damaged():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tensors.safetensors").write_bytes(b"tensors")
        seal(folder, "tensors.safetensors")
        (folder / "tensors.safetensors").chmod(0o600)
        folder.chmod(0o755)
        os.seteuid(65534)
        try:
            found = damaged(folder)
        finally:
            os.seteuid(0)
    assert found == ["tensors.safetensors may not be read (permission denied)"]


@pytest.mark.parametrize("how", ["empty", "cut", "flipped"])
@pytest.mark.parametrize("name", ["cases.jsonl", "keys.safetensors", "situations.jsonl"])
def test_given_cases_that_are_damaged_are_refused(toy, straight, tmp_path, name, how):
    assert toy("cases", "export", straight, tmp_path / "cases", plugin=False).returncode == 0
    damage(tmp_path / "cases" / name, how)
    done = toy.run(tmp_path / "run", code=2, **{"memory.cases": tmp_path / "cases"})
    assert name in done.stderr


def test_a_memory_whose_cases_were_emptied_is_not_an_empty_one(straight, tmp_path):
    memory = shutil.copytree(straight / "memory", tmp_path / "memory")
    damage(memory / "cases.jsonl", "empty")
    with pytest.raises(RunFolderError, match="0 cases but"):
        read_cases(memory)


# -- a part fails ----------------------------------------------------------------------------------------------

CAUSES = [
    "raise ValueError('torn')",
    "raise SystemExit(0)",
    "raise BaseException('odd')",
    "import sys; sys.exit()",
]


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("play", [1, 9])
def test_a_run_that_failed_goes_on_from_its_last_play_to_the_same_bytes(toy, straight, tmp_path, cause, play):
    run = tmp_path / "run"
    more = {"training.pretrain.episodes": "0", "run.checkpoint_every": "6"}
    done = toy.run(run, code=1, trouble=f"{play}:{cause}", **more)
    assert "the environment toy_plugin/toy failed in step" in done.stderr
    assert str(run / "run.log") in done.stderr
    assert "Traceback" in (run / "run.log").read_text()
    assert not (run / "results.json").exists()
    newest = latest_checkpoint(run / "checkpoints")
    assert read_state(newest)[1].games_played == play - 1
    assert newest.name == f"{play - 1:08d}"
    assert not list((run / "checkpoints").glob(".*"))
    toy.resume(run)
    same(straight, run)


@pytest.mark.parametrize("fault", [RuntimeError("odd"), SystemExit(0), BaseException("odder")])
def test_what_nobody_expected_leaves_the_log_and_a_free_folder(tmp_path, fault):
    plugins, folder = load_plugins(files=[PLUGIN]), RunFolder.create("r", tmp_path / "run")
    recipe = load_recipe(SMOKE, overrides=["environment={use: toy_plugin/toy}"], registry=plugins.registry)
    with pytest.raises(RunFailed, match=type(fault).__name__), working(recipe, plugins, folder):
        raise fault
    assert [path.name for path in folder.path.iterdir()] == ["run.log"]
    assert "Traceback" in (folder.path / "run.log").read_text()


@pytest.mark.parametrize("code", ["0", "1", "3"])
def test_a_command_that_ends_the_process_failed(toy, code):
    done = toy("leave", "--code", code)
    assert done.returncode == 1
    assert f"failed: SystemExit: {code}" in done.stderr


def test_the_log_of_a_run_whose_factory_failed_stays_and_the_folder_is_free(toy, tmp_path):
    run, agent = tmp_path / "run", {"agent": "{use: toy_plugin/text, unit: sentence, hidden: 8}"}
    for cause in CAUSES:
        done = toy.run(run, code=1, trouble=f"factory:{cause}", **agent)
        assert str(run / "run.log") in done.stderr
        assert [path.name for path in run.iterdir()] == ["run.log"]
    toy.run(run, **agent)


# -- files -----------------------------------------------------------------------------------------------------

CANNOT = {
    "heads": {"context_encoder.heads": "7"},
    "factory": {"agent": "{use: toy_plugin/text, unit: sentence, hidden: 8}"},
    "cases": {"memory.cases": "/nowhere"},
    "retriever": {"training.pretrain.retriever": "/nowhere"},
}


@pytest.mark.parametrize("what", CANNOT)
def test_the_run_that_is_replaced_goes_only_when_the_new_one_stands(toy, copied, straight, what):
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file() and path.name != "run.log"}
    code = 1 if what == "factory" else 2
    toy.run(copied, "--overwrite", code=code, trouble="factory:raise ValueError", **CANNOT[what])
    found = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file() and path.name != "run.log"}
    assert found == before
    toy.resume(copied)
    same(straight, copied)


def test_a_run_replaces_another(toy, copied, straight):
    (copied / "own.txt").write_text("mine")
    more = {"training.pretrain.episodes": "0", "run.checkpoint_every": "2"}
    toy.run(copied, "--overwrite", **more)
    same(straight, copied)
    assert not (copied / "own.txt").exists()
    assert not [path for path in copied.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", [".recipe.yaml.123.tmp", ".versions.json.9.tmp", ".progress.json.tmp"])
def test_leftovers_of_our_own_block_nothing(tmp_path, copied, name):
    for folder in (tmp_path / "new", copied):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("half a rec")
        assert folder == copied or holds_nothing(folder)
        with closing(RunFolder.create("r", folder, overwrite=folder == copied)):
            assert not (folder / name).exists()
    (copied / name).write_text("half a rec")
    RunFolder.resume(copied).close()
    assert not (copied / name).exists()


@pytest.mark.parametrize("name", [".thesis.tex.123.tmp", ".recipe.yaml.swp", "recipe.yaml.tmp"])
def test_temporary_files_of_other_people_stay(tmp_path, copied, name):
    folder = tmp_path / "theirs"
    folder.mkdir()
    for place in (folder, copied):
        (place / name).write_text("years of work")
    with pytest.raises(RunFolderError, match="holds no run"):
        RunFolder.create("r", folder, overwrite=True)
    RunFolder.resume(copied).close()
    assert (folder / name).read_text() == (copied / name).read_text() == "years of work"


@pytest.mark.parametrize("moved", [1, 3, 99])
def test_a_process_killed_while_it_replaced_a_run_loses_nothing(copied, moved):
    before = sorted(path.name for path in copied.iterdir())
    aside = copied / ".replaced.123.tmp"
    aside.mkdir()
    others = sorted((p for p in copied.iterdir() if p != aside), key=lambda path: path.name == "recipe.yaml")
    for path in others[:moved]:
        if path.name != "run.log":
            path.rename(aside / path.name)
    stored_recipe(copied)
    RunFolder.resume(copied).close()
    assert sorted(path.name for path in copied.iterdir()) == before


@pytest.mark.parametrize("number", ["EPERM", "ENOTSUP", "ENOSYS", "EINVAL"])
def test_no_hard_links_are_needed(tmp_path, monkeypatch, number):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(getattr(errno, number), number)

    monkeypatch.setattr(os, "link", refuse)
    with closing(RunFolder.create("r", tmp_path / "run")) as folder:
        folder.write_text("recipe.yaml", "name: r\n")
    with closing(RunFolder.resume(tmp_path / "run")):
        pass


def test_tensors_have_the_modes_of_other_files(stopped):
    files = [path for path in stopped.rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix == ".safetensors"]) >= 3
    assert len({path.stat().st_mode for path in files}) == 1


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 4 MiB, where this user can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], capture_output=True)
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("room", [0, 9000, 60000])
def test_a_full_disk_ends_the_run_with_its_path_and_loses_nothing(toy, straight, small_disk, room):
    fill = f"import toy_plugin; toy_plugin.fill({str(small_disk / 'filler')!r}, {room})"
    more = {"training.pretrain.episodes": "0", "run.checkpoint_every": "2"}
    done = toy.run(small_disk / "run", code=1, trouble=f"6:{fill}", **more)
    assert "No space left on device" in done.stderr
    assert re.search(r"the run failed: /\S+/disk/run/\S+ cannot be written: .* MiB are free there", done.stderr)
    assert read_state(latest_checkpoint(small_disk / "run" / "checkpoints"))[1].games_played >= 4
    (small_disk / "filler").unlink()
    toy.resume(small_disk / "run")
    same(straight, small_disk / "run")


# -- signals ---------------------------------------------------------------------------------------------------


def test_a_closed_terminal_stops_a_run_as_sigterm_does():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with graceful_interrupt() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_is_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with graceful_interrupt() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_plugins_that_are_in_use_are_among_the_versions(tmp_path):
    """Not those that failed, were skipped or refused, or provide nothing."""
    from types import SimpleNamespace

    from cbrcore.runs import _start

    states = ["ok", "failed", "skipped", "refused", "empty"]
    plugins = [SimpleNamespace(name=f"p-{state}", distribution=f"d-{state}", version="1", status=state)
               for state in states]  # fmt: skip
    work = SimpleNamespace(parts=SimpleNamespace(device="cpu"))
    assert _start(work, SimpleNamespace(plugins=plugins))["plugins"] == {"p-ok": "d-ok 1"}
