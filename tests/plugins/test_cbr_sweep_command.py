"""`cbr sweep` in real processes: the same bytes whatever the launcher and whatever happens on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
import yaml

import cbr_sweep.folder
from cbr_sweep.axes import SweepRun
from cbr_sweep.command import DEFAULT_LAUNCHER
from cbr_sweep.folder import PlannedRun, RunState, SweepFolder
from cbr_sweep.notes import notes
from cbr_sweep.plan import SweepRequest, make_plan
from cbr_sweep.status import RunStatus, pace, read_progress
from cbr_sweep.view import PlainView, cells, table, totals
from cbrcore.console import PlainReporter, RecordedProgress
from cbrcore.errors import RunFolderError
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs.folder import PROGRESS_FILE, RunFolder, user_of

TINY = """
schema: 1
name: tiny
environment: {use: cbr_twc/twc, source: generate, level: easy, games_per_split: 1, max_steps: 3}
text_encoder: {use: cbr_text_encoders/untrained, dim: 24}
context_encoder: {use: cbr_entity/entity}
quantizer: {use: cbr_continuous/continuous}
memory: {}
agent: {use: cbr_text/text, unit: sentence, hidden: 8}
training: {pretrain: {episodes: 0}}
evaluation: {splits: []}
run: {episodes: 2, checkpoint_every: 1}
sweep:
  variants:
    text: {context_encoder: null, quantizer: null, memory: null}
    text_cbr: {}
  training.gamma: [0.8, 0.9]
  seed: [0, 1, 2]
"""
PLAIN = "{context_encoder: null, quantizer: null, memory: null}"
IDS = [
    f"{name}-gamma={gamma}-seed={seed}"
    for name in ("text", "text_cbr")
    for gamma in (0.8, 0.9)
    for seed in (0, 1, 2)
]
COMPARED = ("results.json", "metrics.jsonl", "memory/cases.jsonl", "memory/keys.safetensors")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def whole(cbr, recipe, tmp_path_factory) -> Path:
    """The sweep, done."""
    folder = tmp_path_factory.mktemp("whole") / "sweep"
    done = cbr("sweep", recipe, "--out", folder, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"12 runs: 12 done\nsweep folder: {folder}\n"
    return folder


@pytest.fixture
def done(whole, tmp_path) -> Path:
    """A copy of the sweep."""
    return Path(shutil.copytree(whole, tmp_path / "sweep"))


def content(folder: Path) -> dict[str, bytes | None]:
    """What is compared of a run."""
    return {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in COMPARED}


def same(left: Path, right: Path, *ids: str) -> None:
    for run_id in ids or IDS:
        assert content(left / run_id)["results.json"] is not None
        assert content(left / run_id) == content(right / run_id), run_id


def begins(folder: Path, run_id: str) -> int:
    """How often a process of this run has trained from the beginning to its end."""
    return (folder / "jobs" / f"{run_id}.log").read_text().count("training (game plays): 0/2")


def sweep(recipe: Path, folder: Path, cache_dir: Path, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cbrcore.cli", "sweep", str(recipe), "--out", str(folder), *options],
        env={**os.environ, "CBR_CACHE": str(cache_dir)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(ready: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_sweep_leaves_a_run_folder_for_each_id_and_says_which_they_are(whole):
    assert sorted(path.parent.name for path in whole.glob("*/results.json")) == sorted(IDS)
    data = json.loads((whole / "sweep.json").read_text())
    assert (data["schema"], data["name"], data["recipe"]) == (1, "tiny", "tiny.yaml")
    assert [run["id"] for run in data["runs"]] == IDS
    left = {path.name for run_id in IDS for path in (whole / run_id).iterdir()}
    assert not [name for name in left if name.startswith(".") or name == PROGRESS_FILE]
    last = data["runs"][-1]
    assert last["choices"] == {"variants": "text_cbr", "training.gamma": 0.9, "seed": 2}
    assert last["settings"] == {"training.gamma": 0.9, "seed": 2}


def test_a_run_of_a_sweep_is_the_run_of_its_recipe(cbr, recipe, whole, tmp_path):
    sets = ["--set", "sweep=null", "--set", "training.gamma=0.8", "--seed", 1]
    assert cbr("run", recipe, *sets, "--out", tmp_path / "run").returncode == 0
    assert content(tmp_path / "run") == content(whole / "text_cbr-gamma=0.8-seed=1")


@pytest.mark.parametrize("launcher", ["{use: cbr_launchers/ray, cpus: 0.5}", "{use: submitit, cluster: local}"])
def test_another_launcher_gives_the_same_bytes(cbr, recipe, whole, tmp_path, launcher):
    pytest.importorskip("ray" if "ray" in launcher else "submitit")
    options = ["--only", IDS[8], "--launcher", launcher]
    made = cbr("sweep", recipe, "--out", tmp_path / "sweep", *options)
    assert made.returncode == 0, made.stderr
    same(tmp_path / "sweep", whole, IDS[8])


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["local", "{use: cbr_launchers/ray, cpus: 1}"])
def test_all_runs_have_the_same_bytes_one_at_a_time_and_on_a_cluster(cbr, recipe, whole, tmp_path, launcher):
    made = cbr("sweep", recipe, "--out", tmp_path / "sweep", "--launcher", launcher, "--jobs", 1)
    assert made.returncode == 0, made.stderr
    same(tmp_path / "sweep", whole)


@pytest.mark.long
def test_a_sweep_killed_half_way_is_finished_with_the_same_bytes(cbr, recipe, whole, tmp_path, cache_dir):
    folder = tmp_path / "sweep"
    process = sweep(recipe, folder, cache_dir, "--jobs", "2")
    wait_for(lambda: len(list(folder.glob("*/results.json"))) >= len(IDS) // 2, seconds=300)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(user_of(folder / run_id) for run_id in IDS))
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/results.json")}
    assert len(before) < len(IDS)
    again = cbr("sweep", recipe, "--out", folder, "--jobs", 2)
    assert again.returncode == 0, again.stderr
    same(folder, whole)
    assert [begins(folder, run_id) for run_id in IDS] == [1] * len(IDS)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_repeating_it_does_nothing(cbr, recipe, done):
    before = {path: path.stat().st_mtime_ns for path in done.glob("*/*") if path.parent.name != "jobs"}
    again = cbr("sweep", recipe, "--out", done)
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "12 runs: 12 done"), again.stderr
    assert before == {path: path.stat().st_mtime_ns for path in done.glob("*/*") if path.parent.name != "jobs"}


def undo(folder: Path, *ids: str) -> None:
    for run_id in ids:
        shutil.rmtree(folder / run_id)
        (folder / "jobs" / f"{run_id}.log").unlink()


def test_a_killed_sweep_is_finished_by_the_same_command_and_no_run_is_done_twice(
    cbr, recipe, whole, done, cache_dir
):
    missing = IDS[10:]
    undo(done, *missing)
    process = sweep(recipe, done, cache_dir, "--jobs", "1")
    wait_for(lambda: (done / missing[0] / "metrics.jsonl").exists())
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    wait_for(lambda: user_of(done / missing[0]) is None)  # it is told, and leaves a checkpoint
    assert not (done / missing[1]).exists()
    again = cbr("sweep", recipe, "--out", done, "--jobs", 1)
    assert again.returncode == 0, again.stderr
    same(done, whole)  # which was made two at a time
    assert [begins(done, run_id) for run_id in missing] == [1, 1]


def test_an_interrupt_is_passed_on_and_ends_with_130(recipe, whole, done, cache_dir):
    run_id = IDS[6]
    undo(done, run_id)
    long = ("--set", "run.episodes=20000", "--only", run_id)
    process = sweep(recipe, done, cache_dir, *long)
    metrics, of_whole = done / run_id / "metrics.jsonl", (whole / run_id / "metrics.jsonl").read_bytes()
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > len(of_whole))
    found = read_progress(done / run_id / PROGRESS_FILE)
    assert (found.title, found.total) == ("training (game plays)", 20000)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not (done / run_id / PROGRESS_FILE).exists()
    assert user_of(done / run_id) is None
    assert not (done / run_id / "results.json").exists()
    assert metrics.read_bytes().startswith(of_whole)


def test_a_failed_run_does_not_stop_the_others_and_is_named(cbr, recipe, done, whole):
    undo(done, IDS[0])
    broken = "{environment.source: published, environment.games_dir: /none}"
    variants = ["--set", f"sweep.variants={{broken: {broken}, text: {PLAIN}}}", "--only", "*-gamma=0.8-seed=0"]
    failed = cbr("sweep", recipe, "--out", done, *variants, "--jobs", 1)
    assert failed.returncode == 1, failed.stderr
    lines = [line.split(": ")[1] for line in failed.stderr.splitlines() if line[0] == "["]
    spoken = [line.partition(";")[0].partition(" after")[0] for line in lines]
    assert spoken == ["running", "failed", "running", "done"]
    log = done / "jobs" / "broken-gamma=0.8-seed=0.log"
    assert "1 of 2 runs failed:\n  broken-gamma=0.8-seed=0: " in failed.stderr
    assert f"log: {log}" in failed.stderr
    assert "/none" in log.read_text()
    same(done, whole, IDS[0])
    listed = [run["id"] for run in json.loads((done / "sweep.json").read_text())["runs"]]
    assert set(IDS) - {IDS[0]} < set(listed)  # runs of other axes stay in it
    assert listed.count(IDS[0]) == 1
    assert "broken-gamma=0.9-seed=2" in listed


ENDER = """
import os, signal
from typing import Literal
from cbrcore import ComponentConfig, hookimpl

class Config(ComponentConfig):
    how: Literal["raise SystemExit(0)", "os._exit(0)", "kill -9", "kill -11", "os._exit(137)"]

class Ender:
    def __init__(self, config, build): self.how = config.how
    def begin(self, folder, recipe, *, after):
        if self.how == "raise SystemExit(0)": raise SystemExit(0)
    def write(self, row):
        if self.how.startswith("kill"): os.kill(os.getpid(), int(self.how[6:]))
        os._exit(int(self.how[9:-1]))
    def finish(self, results): ...
    def close(self): ...

@hookimpl
def register_recorders(registry):
    registry.add("ender", factory="ender:Ender", config="ender:Config", summary="ends the process in the middle")
"""
ENDINGS = {
    "raise SystemExit(0)": "",
    "os._exit(0)": "it ended with exit code 0, but there is no results.json; its last words: ",
    "kill -9": "killed by SIGKILL (out of memory?); its last words: ",
    "kill -11": "killed by SIGSEGV; its last words: ",
    "os._exit(137)": "killed by SIGKILL (out of memory?); its last words: ",
}
"""How a part may end its run's process -> what the sweep says of it, if it has to say it."""


def test_a_run_without_results_has_failed_whatever_its_exit_code(cbr, recipe, tmp_path):
    plugin = tmp_path / "ender.py"
    plugin.write_text(ENDER)
    variants = {f"v{at}": {"recorders": [{"use": "ender", "how": how}]} for at, how in enumerate(ENDINGS)}
    sweep = {"variants": {**variants, "good": {}}}
    options = ["--set", f"sweep={json.dumps(sweep)}", "--out", tmp_path / "sweep", "--plugin", plugin]
    failed = cbr("sweep", recipe, *options, "--jobs", 2)
    assert failed.returncode == 1, failed.stderr
    assert f"{len(ENDINGS)} of {len(ENDINGS) + 1} runs failed:" in failed.stderr
    for at, says in enumerate(ENDINGS.values()):
        assert f"\n  v{at}: {says}" in failed.stderr
    assert "Traceback" not in failed.stderr
    typed = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["options"]
    assert typed == [*options[:2], "--plugin", str(plugin)]  # what makes these runs again, beside the folder
    listed = cbr("sweep", recipe, *options, "--dry-run")
    states = dict(line.split()[:2] for line in listed.stdout.splitlines()[1:-2])
    assert states == dict.fromkeys(variants, "started") | {"v0": "new", "good": "done"}  # v0 never began
    assert listed.stdout.endswith(f"{len(ENDINGS) + 1} runs: 1 done, {len(ENDINGS) - 1} started, 1 new\n")


def results_of(path: Path) -> dict:
    return json.loads(path.read_text())


def damaged(path: Path, change) -> None:
    """results.json with a change."""
    data = results_of(path)
    change(data)
    path.write_text(json.dumps(data))


WRONG_RESULTS = {
    "results.json is not what was written (its checksum is another)": [
        lambda path: path.write_text(path.read_text().replace('"env_steps": 6', '"env_steps": 7')),
    ],
    "results.json is damaged": [
        lambda path: path.write_text(""),
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(b"\0" * 100),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("null"),
        lambda path: path.write_text("NaN"),
        lambda path: damaged(path, lambda data: data.pop("protocol")),
        lambda path: damaged(path, lambda data: data.update(training={"episodes": "2"})),
    ],
    "results.json is of another run (name other, not tiny)": [
        lambda path: damaged(path, lambda data: data.update(name="other")),
    ],
    "results.json is of another run (seed 7, not 0)": [
        lambda path: damaged(path, lambda data: data["protocol"].update(seed=7)),
    ],
    "results.json is of an unfinished training (1 of 2 game plays)": [
        lambda path: damaged(path, lambda data: data["training"].update(episodes=1)),
    ],
}


@pytest.mark.parametrize(
    ("says", "damage"), [(says, each) for says, damages in WRONG_RESULTS.items() for each in damages]
)
def test_results_that_are_none_do_not_make_a_run_done(recipe, done, says, damage):
    damage(done / IDS[0] / "results.json")
    registry = load_plugins().registry
    request = SweepRequest(recipe, load_recipe(recipe, registry=registry), [])
    runs = [RunStatus.of(item, SweepFolder(done)) for item in make_plan(request, done, registry).planned]
    assert [status.state for status in runs] == [RunState.STARTED, *[RunState.DONE] * 11]
    assert f"note: {IDS[0]}: {says}; it continues from its checkpoint" in list(notes(runs))


def test_damaged_results_are_made_again_with_the_same_bytes(cbr, recipe, done, whole):
    (done / IDS[0] / "results.json").write_text("{")
    listed = cbr("sweep", recipe, "--out", done, "--dry-run")
    assert listed.stdout.endswith("12 runs: 11 done, 1 started\n")
    assert f"note: {IDS[0]}: results.json is damaged" in listed.stderr
    again = cbr("sweep", recipe, "--out", done)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("12 runs: 12 done")
    same(done, whole)


STORY = "environment={{use: cbr_jericho/jericho, seed: {}}}"
CHANCE = "the chance inside the game (environment.seed: {}; with `run` each draws its own)"


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ([], ["the generated games (environment.generation_seed: 0)"]),
        (["sweep.seed=[3]"], []),
        (["environment={use: cbr_twc/twc, games_dir: .}"], []),
        ([STORY.format("walkthrough")], [CHANCE.format("walkthrough")]),
        ([STORY.format(5), "sweep={environment.game: [zork1, ztuu], seed: [0, 1]}"], [CHANCE.format(5)]),
        ([STORY.format("run")], []),
        ([STORY.format(5), "sweep={variants: {a: {seed: 1}, b: {seed: 1, training.gamma: 0.5}}}"], []),
        ([STORY.format(5), "sweep={variants: {a: {seed: 1}, b: {seed: 2}}}"], [CHANCE.format(5)]),
    ],
)
def test_what_all_seeds_share_is_said_once(recipe, tmp_path, changes, shared):
    registry = load_plugins().registry
    request = SweepRequest(recipe, load_recipe(recipe, overrides=changes, registry=registry), changes)
    plan = make_plan(request, tmp_path / "sweep", registry)
    said = list(notes([RunStatus.of(item, plan.folder) for item in plan.planned]))
    assert said == [f"note: all seeds share {text}" for text in shared]


def test_what_all_seeds_share_is_said_by_the_dry_run_and_before_the_first_run(cbr, recipe, done):
    for options in (["--dry-run"], []):
        told = cbr("sweep", recipe, "--out", done, *options)
        assert told.stderr.count("note: all seeds share the generated games") == 1


def test_a_dry_run_lists_the_runs_and_writes_nothing(cbr, recipe, done, tmp_path):
    undo(done, IDS[3])
    (done / IDS[4] / "results.json").unlink()
    listed = cbr("sweep", recipe, "--out", done, "--dry-run")
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    assert rows[0] == ["run", "state", "choices"]
    assert [row[0] for row in rows[1:13]] == IDS
    assert [row[1] for row in rows[3:7]] == ["done", "new", "started", "done"]
    assert rows[4][2] == "variants: text, training.gamma: 0.9, seed: 0"
    assert listed.stdout.splitlines()[-1] == "12 runs: 10 done, 1 started, 1 new"
    assert not (done / IDS[3]).exists()
    assert cbr("sweep", recipe, "--out", tmp_path / "none", "--dry-run").returncode == 0
    assert not (tmp_path / "none").exists()


def test_runs_of_a_changed_recipe_are_refused_by_name(cbr, recipe, done):
    changed = cbr("sweep", recipe, "--out", done, "--set", "agent.hidden=16", "--only", "*seed=0")
    assert changed.returncode == 2
    assert f"{IDS[0]}: agent.hidden is 8 there, 16 now" in changed.stderr
    assert f"rm -r {done / IDS[0]}" in changed.stderr
    assert IDS[1] not in changed.stderr
    assert "Traceback" not in changed.stderr


def test_other_values_of_an_axis_are_other_runs_of_the_same_recipe(cbr, recipe, whole, tmp_path):
    """What the hint tells to type: the runs are those of the recipe, and more values may be added."""
    only = ("--only", "text-gamma=0.9-seed=?")
    for seeds in ("[2]", "[2, 1]"):
        done = cbr("sweep", recipe, "--out", tmp_path / "sweep", "--set", f"sweep.seed={seeds}", *only)
        assert done.returncode == 0, done.stderr
    assert "sweep" not in yaml.safe_load(
        (tmp_path / "sweep" / "text-gamma=0.9-seed=2" / "recipe.yaml").read_text()
    )
    same(tmp_path / "sweep", whole, "text-gamma=0.9-seed=1", "text-gamma=0.9-seed=2")


def test_a_folder_with_a_space_is_quoted_in_what_to_type(cbr, recipe, done, tmp_path):
    folder = done.rename(tmp_path / "my sweep")
    changed = cbr("sweep", recipe, "--out", folder, "--set", "agent.hidden=16", "--only", "*seed=0")
    assert f"rm -r '{folder / IDS[0]}'" in changed.stderr


def test_a_run_in_use_is_skipped_and_a_stale_lock_is_not(cbr, recipe, done, whole):
    (done / IDS[0] / "results.json").unlink()
    (done / IDS[1] / "results.json").unlink()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (done / IDS[1] / ".lock").write_text(str(dead.pid))
    used = RunFolder.resume(done / IDS[0])
    try:
        worked = cbr("sweep", recipe, "--out", done)
    finally:
        used.close()
    assert worked.returncode == 0, worked.stderr
    assert f"{IDS[0]}: skipped, process {os.getpid()} works on it" in worked.stderr
    assert worked.stdout.startswith("12 runs: 11 done, 1 in use")
    assert not (done / IDS[0] / "results.json").exists()
    same(done, whole, IDS[1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "seed=9"], "there are: text-gamma=0.8-seed=0"),
        (["--seed", "3"], "sweep.seed=[3]"),
        (["--set", "training.gamma=0.5"], "has an axis 'training.gamma', whose values count"),
        (["--launcher", "lokal"], "cbr_launchers/local"),
        (["--set", "sweep={variants: {jobs: {seed: 1}}}"], "cannot be called 'jobs'"),
        (["--set", f"sweep={{variants: {{plain: {PLAIN}}}, memory.capacity: [5]}}"], "run plain-capacity=5: "),
        (["--jobs", "0"], "--jobs"),
        (["--set", "sweep.seed=[0, 1, 0]"], "sweep.seed: names a value twice"),
    ],
)
def test_wrong_input_ends_with_one_clear_error(cbr, recipe, tmp_path, arguments, says):
    wrong = cbr("sweep", recipe, "--out", tmp_path / "sweep", *arguments)
    assert wrong.returncode == 2, wrong.stderr
    assert says in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (lambda folder: (folder / "notes.txt").write_text("mine"), "holds no sweep"),
        (lambda folder: (folder / "sweep.json").write_text("{}"), "damaged"),
        (
            lambda folder: (folder / "sweep.json").write_text('{"schema": 1, "name": "other", "runs": []}'),
            "holds the sweep 'other'",
        ),
    ],
)
def test_a_folder_that_holds_something_else_is_left_alone(cbr, recipe, tmp_path, fill, says):
    fill(tmp_path)
    before = sorted(tmp_path.iterdir())
    refused = cbr("sweep", recipe, "--out", tmp_path)
    assert refused.returncode == 2
    assert says in refused.stderr
    assert sorted(tmp_path.iterdir()) == before


def of_runs(folder: Path, *seeds: int) -> Callable[[], None]:
    """What another terminal does when it begins the sweep with these runs."""
    runs = [SweepRun(f"seed={seed}", {"seed": str(seed)}, {"seed": seed}) for seed in seeds]
    return lambda: SweepFolder(folder).begin("tiny", Path("tiny.yaml"), runs, [])


@pytest.mark.parametrize("look", [(SweepFolder, "_written"), (Path, "iterdir"), (Path, "is_dir")])
def test_a_sweep_may_begin_while_another_looks_whether_the_folder_is_free(tmp_path, monkeypatch, look):
    """Whichever of its looks it has just taken."""
    looked = getattr(*look)

    def looking(of: Path | SweepFolder) -> object:
        found = looked(of)
        found = list(found) if look[1] == "iterdir" else found
        monkeypatch.setattr(*look, looked)
        of_runs(tmp_path, 0)()
        return found

    monkeypatch.setattr(*look, looking)
    SweepFolder(tmp_path).check("tiny", [], load_plugins().registry)
    assert getattr(*look) is looked
    assert (tmp_path / "jobs").is_dir()


def test_the_folder_of_a_sweep_is_free_for_it_at_every_moment_of_its_beginning(tmp_path, monkeypatch):
    checks, write = [], cbr_sweep.folder.write_atomically

    def writing(path: Path, text: str) -> None:
        leftover = path.with_name(f".{path.name}.1.tmp")
        leftover.touch()
        SweepFolder(tmp_path).check("tiny", [], load_plugins().registry)
        checks.append(path.name)
        leftover.unlink()
        write(path, text)

    monkeypatch.setattr(cbr_sweep.folder, "write_atomically", writing)
    of_runs(tmp_path, 0)()
    assert checks == ["sweep.json"]


def test_two_that_begin_at_once_are_both_written_down(tmp_path, monkeypatch):
    """Each with runs that the other does not name: the second waits until the first is written."""
    threads, write = [], cbr_sweep.folder.write_atomically
    for seed in (0, 1):
        (tmp_path / f"seed={seed}").mkdir()
        (tmp_path / f"seed={seed}" / "recipe.yaml").touch()

    def writing(path: Path, text: str) -> None:
        monkeypatch.setattr(cbr_sweep.folder, "write_atomically", write)
        threads.append(Thread(target=of_runs(tmp_path, 1)))
        threads[0].start()
        threads[0].join(0.3)
        write(path, text)

    monkeypatch.setattr(cbr_sweep.folder, "write_atomically", writing)
    of_runs(tmp_path, 0)()
    threads[0].join()
    listed = json.loads((tmp_path / "sweep.json").read_text())["runs"]
    assert {run["id"] for run in listed} == {"seed=0", "seed=1"}


def test_another_sweep_that_began_meanwhile_keeps_the_folder(tmp_path):
    begun = of_runs(tmp_path, 0)
    begun()
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(RunFolderError, match="holds the sweep 'tiny', not 'other'"):
        SweepFolder(tmp_path).begin("other", Path("other.yaml"), [], [])
    assert (tmp_path / "sweep.json").read_bytes() == before


def test_the_sweeping_process_does_not_import_torch():
    script = "import sys, cbr_sweep.command, cbr_launchers.local; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_default_launcher_exists():
    assert load_plugins().registry.find("launcher", DEFAULT_LAUNCHER).qualified == DEFAULT_LAUNCHER


def status_of(run_id: str, state: RunState, folder: Path) -> RunStatus:
    """A run of the sweep in `folder`."""
    (folder / run_id).mkdir(exist_ok=True)
    return RunStatus(PlannedRun(SweepRun(run_id, {}, {}), None), state, folder / run_id, folder / f"{run_id}.log")


def write_progress(status: RunStatus, done: int, total: int = 100, title: str = "training (game plays)") -> None:
    """As the run's process does."""
    RecordedProgress(PlainReporter(), status.folder / PROGRESS_FILE).phase(title, total, done)


def test_rate_and_time_left_come_from_the_progress_that_the_run_writes(tmp_path):
    status = status_of("a", RunState.STARTED, tmp_path)
    write_progress(status, 99)  # by a process that was killed
    status.launched()
    status.start(0.0)
    status.look(10.0)
    assert (status.progress, status.rate, status.seconds_left) == (None, None, None)
    for now, done in ((20.0, 50), (30.0, 70), (40.0, 70)):
        write_progress(status, done)
        status.look(now)
    assert (status.rate, status.seconds_left) == (2.0, 15.0)  # 20 plays from 20 s to 30 s; 30 are left
    assert cells(status) == ("a", "running", "training (game plays) 70/100", "2/s", "15 s")
    (status.folder / PROGRESS_FILE).unlink()  # the process ends
    status.look(41.0)
    assert status.progress is not None
    status.end(RunState.DONE, 42.0)
    assert cells(status)[:3] == ("a", "done", "in 42 s")


def test_a_rate_is_that_of_the_last_minute(tmp_path):
    """A run that plays two a second for five minutes, and then one in ten seconds."""
    status = status_of("a", RunState.NEW, tmp_path)
    status.launched()
    status.start(0.0)
    for now in range(0, 301, 10):
        write_progress(status, 2 * now, 1000)
        status.look(now)
    assert status.rate == pytest.approx(2.0)
    for now in range(310, 371, 10):
        write_progress(status, 600 + (now - 300) // 10, 1000)
        status.look(now)
    assert status.rate == pytest.approx(0.1, rel=0.05)
    assert status.seconds_left == pytest.approx(3930, rel=0.05)


def test_a_slow_run_has_a_rate_too(tmp_path):
    status = status_of("a", RunState.NEW, tmp_path)
    status.launched()
    status.start(0.0)
    for now in range(0, 401, 100):
        write_progress(status, now // 100)
        status.look(now)
    assert status.rate == pytest.approx(0.01)


def test_another_phase_has_a_rate_of_its_own(tmp_path):
    status = status_of("a", RunState.NEW, tmp_path)
    status.launched()
    status.start(0.0)
    for now, title, done in ((1.0, "training", 0), (2.0, "training", 50), (3.0, "evaluating", 0)):
        write_progress(status, done, title=title)
        status.look(now)
    assert (status.progress.title, status.rate) == ("evaluating", None)


def test_what_a_run_prints_is_not_its_progress(tmp_path):
    status = status_of("a", RunState.NEW, tmp_path)
    status.launched()
    status.log.write_text("x: 3/15\ntraining (game plays): 4/10  score 1\n")
    assert status.has_spoken()
    status.start(0.0)
    status.look(1.0)
    assert status.progress is None
    (status.folder / PROGRESS_FILE).write_text("x: 3/15\n")
    status.look(2.0)
    assert status.progress is None
    assert cells(status)[2] == "starting"


def test_a_log_of_an_earlier_process_says_nothing(tmp_path):
    status = status_of("a", RunState.STARTED, tmp_path)
    status.log.write_text("error: the old one\n")
    status.launched()
    assert not status.has_spoken()
    with status.log.open("a") as log:
        log.write("working\n")
    assert status.has_spoken()
    assert status.last_error() == "working"


def test_the_whole_sweep_takes_as_long_as_its_runs_do(tmp_path):
    done, running, late, *waiting = (status_of(str(number), RunState.NEW, tmp_path) for number in range(6))
    assert pace([done, running]) is None
    for status, started in ((done, 0.0), (running, 100.0), (late, 140.0)):
        status.start(started)
        status.look(160.0)
    done.end(RunState.DONE, 120.0)
    runs = [done, running, late, *waiting]
    found = pace(runs)  # two at once, 120 s each: left are 60 s, 100 s, and three whole ones
    assert (found.runs_per_second, found.seconds_left) == (2 / 120, (60 + 100 + 3 * 120) / 2)
    assert totals(runs, found) == ("whole sweep", "", "1/6 runs", "60 runs/h", "4 min")
    shown = table(runs, 20)
    assert shown.show_footer
    assert [str(column.footer) for column in shown.columns] == list(totals(runs, found))


def test_before_the_first_run_is_done_its_phase_tells_how_long_a_run_takes(tmp_path):
    runs = [status_of(str(number), RunState.NEW, tmp_path) for number in range(2)]
    runs[0].launched()
    runs[0].start(0.0)
    for now, done in ((10.0, 10), (20.0, 20)):
        write_progress(runs[0], done)
        runs[0].look(now)
    assert pace(runs).seconds_left == 80 + 100


def test_lines_for_logs_tell_the_pace_too(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("cbr_sweep.view.SECONDS_BETWEEN_LINES", 0.0)
    runs = [status_of(str(number), RunState.NEW, tmp_path) for number in range(2)]
    for status in runs:
        status.start(0.0)
    runs[0].end(RunState.DONE, 30.0)
    runs[1].look(10.0)
    PlainView().refresh(runs)
    assert capfd.readouterr().err == "1 done, 1 running (120 runs/h, about 20 s left): 1 starting\n"
    for now, done in ((12.0, 10), (22.0, 30)):
        write_progress(runs[1], done)
        runs[1].look(now)
    capfd.readouterr()
    PlainView().refresh(runs)
    assert capfd.readouterr().err.endswith(": 1 training (game plays) 30/100 (2/s, 35 s left)\n")
    PlainView().changed(runs[0], runs)
    assert capfd.readouterr().err == "[1/2] 0: done after 30 s; about 35 s left\n"


def test_a_table_without_room_shows_what_is_urgent_in_the_order_of_the_sweep(tmp_path):
    states = [RunState.DONE, RunState.NEW, RunState.FAILED, RunState.NEW, RunState.RUNNING]
    runs = [status_of(str(number), state, tmp_path) for number, state in enumerate(states)]
    shown = table(runs, 3)
    assert list(map(str, shown.columns[0].cells)) == ["1", "2", "4"]
    assert shown.title == "1 done, 1 running, 2 new, 1 failed, 2 not shown"
    assert not shown.show_footer
