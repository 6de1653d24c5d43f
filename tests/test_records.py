"""The run folder: names, locks, atomic files, metrics after a resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from cbrcore.errors import RunFolderError
from cbrcore.runs.folder import MetricsLog, RunFolder, read_json


@pytest.fixture
def finished(tmp_path):
    folder = RunFolder.create("r", tmp_path / "run")
    folder.write_text("recipe.yaml", "name: r\n")
    folder.write_text("old.txt", "old")
    folder.close()
    return tmp_path / "run"


def test_runs_started_together_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(12) as pool:
        folders = list(pool.map(lambda _: RunFolder.create("same", None), range(12)))
    assert len({folder.path for folder in folders}) == 12
    assert all(folder.path.parent == tmp_path / "runs" for folder in folders)
    for folder in folders:
        folder.close()


def test_a_folder_in_use_is_refused_with_the_process(tmp_path):
    folder = RunFolder.create("r", tmp_path / "run")
    folder.write_text("recipe.yaml", "name: r\n")
    for take in (
        lambda: RunFolder.create("r", tmp_path / "run", overwrite=True),
        lambda: RunFolder.resume(folder.path),
    ):
        with pytest.raises(RunFolderError, match=f"in use by process {os.getpid()}"):
            take()
    folder.close()
    RunFolder.resume(folder.path).close()


def test_the_lock_of_a_dead_process_does_not_block(finished):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (finished / ".lock").write_text(str(dead.pid))
    RunFolder.resume(finished).close()
    assert not (finished / ".lock").exists()


def test_a_finished_run_needs_resume_or_overwrite(finished):
    with pytest.raises(RunFolderError, match=r"--resume .*--overwrite"):
        RunFolder.create("r", finished)
    RunFolder.create("r", finished, overwrite=True).close()
    assert not (finished / "old.txt").exists()


def test_a_folder_with_other_files_is_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="holds no run"):
        RunFolder.create("r", tmp_path, overwrite=True)
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder.create("r", tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_run_that_never_began_leaves_no_folder(tmp_path):
    RunFolder.create("r", tmp_path / "run").close()
    assert not (tmp_path / "run").exists()


def test_resume_needs_a_run(tmp_path):
    with pytest.raises(RunFolderError, match="holds no run"):
        RunFolder.resume(tmp_path)


def test_json_is_strict_and_written_whole(tmp_path):
    folder = RunFolder.create("r", tmp_path / "run")
    folder.write_text("recipe.yaml", "name: r\n")
    folder.write_json("a.json", {"x": 1})
    with pytest.raises(ValueError):
        folder.write_json("a.json", {"x": float("nan")})
    assert read_json(folder.path / "a.json") == {"x": 1}
    assert sorted(p.name for p in folder.path.iterdir()) == [".lock", "a.json", "recipe.yaml", "run.log"]
    folder.close()
    (folder.path / "a.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"a\.json"):
        read_json(folder.path / "a.json")


def test_metrics_after_a_resume_hold_each_episode_once_and_in_order(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for episode in (1, 2, 3):
        log.write({"episode": episode})
        if episode == 2:
            kept = log.position()
    log.close()
    again = MetricsLog(path, keep_bytes=kept)  # the checkpoint was taken after episode 2
    again.write({"episode": 3, "new_column": 0.5})
    again.close()
    assert [json.loads(line)["episode"] for line in path.read_text().splitlines()] == [1, 2, 3]
