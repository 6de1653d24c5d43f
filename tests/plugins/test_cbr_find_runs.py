"""`cbr runs`: what a folder of runs looks like from outside, whatever lies in it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from report_runs import played, recipe_text, results, write_run

from cbr_find.run_rows import State, row_of
from cbr_find.runs_command import HEAD, rows_in
from cbrcore.console import PlainReporter, RecordedProgress
from cbrcore.runs.files import seal
from cbrcore.runs.folder import PROGRESS_FILE, RunFolder

TESTS = Path(__file__).parents[1]
SMOKE = TESTS.parent / "recipes" / "smoke" / "text_cbr_generated.yaml"
TOY = ("environment={use: toy_plugin/toy}", "training.pretrain=null", "run.episodes=6", "recorders=[]")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def twc(folder: Path, name: str, seed: int = 0, *, episodes: int = 500) -> Path:
    """A run of a hundred passes over five games, by hand."""
    recipe = recipe_text("twc.yaml", f"text_cbr-level=easy-seed={seed}")
    found = results(seed, {"in": played(8.0 + seed, 0.9), "out": played(9.0, 0.8)})
    found["training"] |= {"episodes": episodes, "env_steps": 10 * episodes, "memory_size": 3}
    found["protocol"]["games"] = {"train": {str(game): {"max_score": 1} for game in range(5)}}
    return write_run(folder / name, recipe, found)


def toy(here, out: Path, monkeypatch, trouble: str = ""):
    """A real run of the toy game."""
    monkeypatch.setenv("TOY_TROUBLE", trouble)
    sets = [word for each in TOY for word in ("--set", each)]
    return here("run", SMOKE, *sets, "--out", out, "--plugin", TESTS / "toy_plugin.py")


# states


def test_a_run_that_is_done_has_its_figures(folder, here):
    twc(folder, "one", 2)
    done = here("runs")
    assert done.returncode == 0, done.stderr
    head, row = (line.split() for line in done.stdout.splitlines())
    assert head == list(HEAD)
    assert row[:6] == ["runs/one", "twc", "text", "+", "cases", "2"]
    assert "IN 10.0 steps, 0.90; OUT 9.0 steps, 0.80" in done.stdout


def test_points_stand_for_shares_where_games_are_told_by_points(folder):
    recipe = recipe_text("jericho_33.yaml", "bike_cbr-game=zork1-seed=0")
    found = results(3, {}, game={"initial_score": 0, "max_score": 350})
    found["training"] |= {"episodes": 1000, "env_steps": 100_000}
    row = row_of(write_run(folder / "zork1", recipe, found))
    assert (row.state, row.figures) == (State.DONE, "score 13.0 (last 100 episodes)")
    assert row.numbers == {"score, last 100": 13.0}


def test_under_p2_the_score_is_that_of_the_evaluation(folder):
    recipe = recipe_text("jericho_33.yaml", "bike_cbr-game=zork1-seed=0", "environment.seed=episode")
    found = results(3, {"train": played(100, 7.5)}, game={"initial_score": 0, "max_score": 350})
    found["training"] |= {"episodes": 1000, "env_steps": 100_000}
    found["protocol"]["handicaps"]["protocol"] = "P2: a seed for each episode"
    row = row_of(write_run(folder / "zork1", recipe, found))
    assert (row.figures, row.numbers) == ("score 7.5 (evaluation, P2)", {"score, evaluation": 7.5})


def test_a_real_run_that_failed_was_stopped_or_is_done(folder, here, monkeypatch):
    codes = [toy(here, folder / name, monkeypatch, trouble).returncode for name, trouble in
             {"torn": "4:raise ValueError('torn')", "stopped": "4:stop", "whole": ""}.items()]  # fmt: skip
    assert codes == [1, 130, 0]
    rows = {Path(row.folder).name: row for row in rows_in(Path("runs"))}
    assert [(name, row.state) for name, row in rows.items()] == [
        ("torn", State.FAILED), ("stopped", State.INTERRUPTED), ("whole", State.DONE)]  # fmt: skip
    assert "torn" in rows["torn"].detail
    assert rows["torn"].detail.endswith("after 3 game plays")
    assert rows["stopped"].detail == "after 4 game plays"
    said = here("runs").stderr
    assert "cbr run --resume runs/stopped" in said
    assert "runs/torn/run.log" in said


def test_a_killed_run_that_had_failed_before_is_interrupted(folder, here, monkeypatch):
    toy(here, folder / "run", monkeypatch, "4:raise ValueError('torn')")
    began = folder / "run" / "versions.json"
    os.utime(began, (time.time() + 60,) * 2)  # resumed later, and then killed
    assert row_of(folder / "run").state is State.INTERRUPTED


def test_a_running_run_tells_how_far_it_is_and_how_fast(folder, monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("cbrcore.console.time.monotonic", lambda: now[0])
    run = RunFolder.create("x", folder / "run")
    try:
        with RecordedProgress(PlainReporter(), run.path / PROGRESS_FILE) as progress:
            progress.phase("training (game plays)", 1100, done=1000)
            assert row_of(run.path).shown == "running: training (game plays) 1,000/1,100"
            now[0] += 5
            for _ in range(10):
                progress.advance()
            now[0] += 1
            progress.advance()
            assert row_of(run.path).shown == "running: training (game plays) 1,011/1,100, 1.8/s, 49 s left"
            (run.path / PROGRESS_FILE).write_text('{"phase": "training", "done": 1, "total": 2, "note": ""}')
            assert row_of(run.path).shown == "running: training 1/2"  # an older version's
            (run.path / PROGRESS_FILE).write_text("{")
            assert row_of(run.path).shown == f"running: process {os.getpid()}"
    finally:
        run.close()
    assert capsys.readouterr().out == ""


def test_a_run_that_was_measured_before_it_was_trained_to_its_end_is_not_done(folder):
    row = row_of(twc(folder, "early", episodes=123))
    assert (row.state, row.detail) == (State.INTERRUPTED, "after 123 of 500 game plays")


def test_what_is_no_run_is_told(folder):
    (folder / "empty").mkdir(parents=True)
    (folder / "died").mkdir()
    (folder / "died" / "run.log").write_text("2026-01-01 10:00:00,123 ERROR cbrcore.runs: no games here\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "todo.txt").write_text("tidy up")
    (folder / "a file").write_text("")
    (folder / ".hidden").mkdir()
    shown = {Path(row.folder).name: row.shown for row in rows_in(folder)}
    assert shown == {"empty": "empty", "died": "failed: no games here", "notes": "no run"}


def test_a_pretrained_retriever_is_done(folder):
    run = twc(folder, "retriever")
    (run / "results.json").rename(run / "pretraining.json")
    assert row_of(run).shown == "done: a pretrained retriever"


# damage


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("recipe.yaml", b"schema: [", "recipe.yaml:1: "),
        ("recipe.yaml", b"just words", "recipe.yaml holds no recipe"),
        ("recipe.yaml", b"schema: 1\n", "not what a run writes (KeyError: 'name')"),
        ("recipe.yaml", b"\xff\xfe", "not what a run writes (UnicodeDecodeError"),
        ("results.json", b"{", "results.json: cannot be read: "),
        ("results.json", b'{"evaluation": {}}', "not what a run writes (KeyError: 'training')"),
        ("results.json", b"[]", "not what a run writes (TypeError: "),
    ],
)
def test_what_is_damaged_is_a_row_that_says_so(folder, here, name, content, said):
    twc(folder, "good", 1)
    (twc(folder, "bad") / name).write_bytes(content)
    rows = {Path(row.folder).name: row for row in rows_in(folder)}
    assert rows["good"].state is State.DONE
    assert rows["bad"].state is State.DAMAGED
    assert rows["bad"].detail.startswith(said)
    assert "\n" not in rows["bad"].detail
    assert here("runs").returncode == 0


def test_a_wrong_checksum_is_damage_and_names_the_file(folder):
    run = twc(folder, "run")
    seal(run, "results.json", "metrics.jsonl", "recipe.yaml")
    assert row_of(run).state is State.DONE
    (run / "metrics.jsonl").write_text("")
    assert row_of(run).shown == "damaged: metrics.jsonl is empty"


def test_no_bytes_in_a_runs_files_make_it_crash(folder):
    run, rng = twc(folder, "run"), random.Random(0)
    whole = {name: (run / name).read_bytes() for name in ("recipe.yaml", "results.json", "versions.json")}
    for turn in range(60):
        name = rng.choice(list(whole))
        broken = bytearray(whole[name])
        for _ in range(rng.randint(1, 20)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        (run / name).write_bytes(broken[: rng.randrange(len(broken))] if turn % 3 == 0 else broken)
        assert isinstance(row_of(run).state, State)
        (run / name).write_bytes(whole[name])


# folders


def sweep(folder: Path) -> Path:
    ids = [f"text_cbr-level=easy-seed={seed}" for seed in (0, 1, 2)]
    twc(folder / "twc", ids[0])
    (twc(folder / "twc", ids[1], 1) / "results.json").unlink()
    planned = {"schema": 1, "name": "twc", "recipe": "twc.yaml", "runs": [{"id": each} for each in ids]}
    (folder / "twc" / "sweep.json").write_text(json.dumps(planned))
    (folder / "twc" / "jobs").mkdir()
    return folder / "twc"


def test_a_sweep_is_one_row_with_its_runs_counted_and_its_folder_shows_each(folder, here):
    path = sweep(folder)
    twc(folder, "single")
    rows = {Path(row.folder).name: row for row in rows_in(folder)}
    assert rows["twc"].shown == "sweep: 1 of 3 done, 1 interrupted, 1 new"
    assert (rows["twc"].recipe, rows["single"].state) == ("twc", State.DONE)
    assert "cbr runs runs/twc" in here("runs").stderr
    assert [row.state for row in rows_in(path)] == [State.DONE, State.INTERRUPTED, State.NEW]
    (path / "sweep.json").write_text("{")
    damaged = next(row for row in rows_in(folder) if row.state is State.SWEEP)
    assert damaged.shown == "sweep: 1 of 2 done, 1 interrupted (its sweep.json is damaged)"


def test_a_runs_own_folder_is_its_row(folder):
    assert [row.folder for row in rows_in(twc(folder, "one"))] == [str(folder / "one")]


def test_json_has_every_column_and_times_with_a_zone(folder, here):
    twc(folder, "one", 2)
    (folder / "none").mkdir()
    none, one = json.loads(here("runs", "--json").stdout)
    assert (none["state"], none["when"], none["seed"], none["numbers"]) == ("empty", None, None, {})
    assert (one["state"], one["recipe"], one["agent"], one["seed"]) == ("done", "twc", "text + cases", 2)
    assert one["numbers"] == {"IN #steps": 10.0, "IN norm. score": 0.9, "OUT #steps": 9.0, "OUT norm. score": 0.8}
    assert one["when"][-6] in "+-"


def test_what_was_written_last_stands_below(folder):
    for seed, name in enumerate(["c", "a", "b"]):
        run = twc(folder, name, seed)
        for file in run.iterdir():
            os.utime(file, (1000 + seed,) * 2)
    assert [Path(row.folder).name for row in rows_in(folder)] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "runs: there is no such folder"),
        (["nowhere"], "nowhere: there is no such folder"),
        (["file"], "file: is a file, not a folder"),
        (["none"], "none holds no runs"),
    ],
)
def test_where_there_is_nothing_it_says_what_to_type(folder, here, words, said):
    (folder.parent / "file").write_text("")
    (folder.parent / "none").mkdir()
    done = here("runs", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}\n  ")
    assert "cbr run RECIPE" in done.stderr


def test_nothing_is_changed_and_nothing_heavy_imported(folder):
    run = twc(folder, "one")
    shutil.copytree(run, folder / "copy")
    code = "import sys; sys.argv = ['cbr', 'runs']; from cbrcore.cli import main\ntry: main()\n"
    code += "except SystemExit: print(sorted({'torch', 'textworld', 'jericho'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder.parent, capture_output=True, text=True)
    assert done.stdout.endswith("[]\n"), done.stderr
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in (folder / "copy").iterdir())
