"""The run folder: names, locks, atomic files, metrics after a resume."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cbrcore.errors import RunFolderError
from cbrcore.runs.files import CHECKSUMS_FILE, clear_leftovers, damaged, seal, sync, write_atomically
from cbrcore.runs.folder import LOCK_FILE, USER_FILE, MetricsLog, RunFolder, holds_nothing, read_json, user_of


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


HOLD = """
import sys
from pathlib import Path
from cbrcore.runs.folder import RunFolder
folder = RunFolder.resume(Path(sys.argv[1]))
print("mine", flush=True)
sys.stdin.readline()
folder.close()
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that works in the run folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "mine\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_another_process_is_named_until_it_is_done(finished):
    assert user_of(finished) is None
    with holder(finished) as process:
        assert user_of(finished) == f"process {process.pid}"
        with pytest.raises(RunFolderError, match=f"in use by process {process.pid}"):
            RunFolder.resume(finished)
        process.communicate("done\n")
        assert user_of(finished) is None
        assert not [path for path in finished.iterdir() if path.name.startswith(LOCK_FILE)]
        RunFolder.resume(finished).close()


def test_a_killed_process_holds_nothing_from_that_moment_on(finished):
    with holder(finished) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (finished / USER_FILE).exists()
        assert user_of(finished) is None
        folder = RunFolder.resume(finished)
    assert user_of(finished) == f"process {os.getpid()}"
    folder.close()
    assert user_of(finished) is None


@pytest.mark.parametrize("text", [None, "", "12", "1 2 3", b"\xff\xfe"])
def test_a_folder_is_in_use_though_nobody_can_read_by_whom(finished, text):
    folder = RunFolder.resume(finished)
    (finished / USER_FILE).unlink()
    if text is not None:
        (finished / USER_FILE).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert user_of(finished) == "another process"
    with pytest.raises(RunFolderError, match="in use by another process"):
        RunFolder.resume(finished)
    folder.close()


def test_a_process_on_another_machine_is_named_with_it(finished, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: "node7")
        folder = RunFolder.resume(finished)
    assert user_of(finished) == f"process {os.getpid()} on node7"
    folder.close()


def test_the_lock_is_looked_at_and_not_taken(finished):
    def look(_: int) -> object:
        return user_of(finished)

    (finished / LOCK_FILE).touch()  # as a killed process leaves it
    with ThreadPoolExecutor(4) as pool:
        looks = pool.map(look, range(2000))
        for _ in range(20):
            RunFolder.resume(finished).close()
        assert set(looks) <= {None, f"process {os.getpid()}", "another process"}
    assert user_of(finished) is None
    assert not (finished / LOCK_FILE).exists()


RACE = """
import sys
from pathlib import Path
from cbrcore.errors import RunFolderError
from cbrcore.runs.folder import RunFolder
print("ready", flush=True)
sys.stdin.readline()
try:
    folder = RunFolder.create("r", Path(sys.argv[1]), overwrite=sys.argv[2] == "overwrite")
except RunFolderError as error:
    sys.exit(str(error))
folder.write_text("recipe.yaml", "name: r\\n")
sys.stdin.readline()
folder.close()
"""


@pytest.mark.parametrize("found", ["nothing", "a stale lock", "overwrite"])
def test_of_processes_that_begin_at_the_same_moment_one_wins(tmp_path, found):
    path = tmp_path / "run"
    if found == "a stale lock":
        path.mkdir()
        (path / LOCK_FILE).touch()
    if found == "overwrite":
        path.mkdir()
        (path / "recipe.yaml").write_text("name: r\n")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, path, found],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    while len(still := [racer for racer in racers if racer.poll() is None]) > 1:
        time.sleep(0.02)
    (winner,) = still
    assert winner.communicate("done\n")[1] == ""
    assert winner.returncode == 0
    refused = [racer.communicate()[1] for racer in racers if racer is not winner]
    assert all(f"in use by process {winner.pid}" in text for text in refused)


def test_a_run_that_died_before_its_recipe_leaves_a_folder_that_is_free(tmp_path):
    folder = RunFolder.create("r", tmp_path / "run")
    assert holds_nothing(folder.path)
    shutil.copytree(folder.path, tmp_path / "left")  # as after a kill
    folder.close()
    RunFolder.create("r", tmp_path / "left").close()


def test_replacing_a_run_leaves_nothing_of_it(finished):
    (finished / "checkpoints" / "000001").mkdir(parents=True)
    with closing(RunFolder.create("r", finished, overwrite=True)) as folder:
        folder.set_aside()
        folder.write_text("recipe.yaml", "name: new\n")
        folder.stands()
        assert sorted(path.name for path in finished.iterdir()) == [LOCK_FILE, USER_FILE, "recipe.yaml", "run.log"]
    assert (finished / "recipe.yaml").read_text() == "name: new\n"


def test_a_folder_that_cannot_be_locked_is_said_to_be_one(finished, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("cbrcore.runs.folder.FileLock.acquire", refuse)
    with pytest.raises(RunFolderError, match=r"cannot be locked.*Permission denied"):
        RunFolder.resume(finished)


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
    assert (finished / "old.txt").exists()  # the run that would replace it never began


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
    assert sorted(p.name for p in folder.path.iterdir()) == [
        ".lock",
        ".lock.user",
        "a.json",
        "recipe.yaml",
        "run.log",
    ]
    folder.close()
    (folder.path / "a.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"a\.json"):
        read_json(folder.path / "a.json")


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """The names of what was made to survive a power cut, in order."""
    found: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (found.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name), fsync(fd))
    )
    return found


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_we_go_on(tmp_path, synced):
    write_atomically(tmp_path / "a.json", "{}")
    write_atomically(tmp_path / "a.json", b"{}")
    assert synced == [f".a.json.{os.getpid()}.tmp", tmp_path.name] * 2
    sync(tmp_path / "nowhere")  # is no failure
    assert len(synced) == 4


def test_what_is_sealed_is_on_the_disk(tmp_path, synced):
    (tmp_path / "memory" / "deep").mkdir(parents=True)
    for name in ("a", "b", "memory/c", "memory/deep/d"):
        (tmp_path / name).write_text(name)
    seal(tmp_path, "a", "memory", "nowhere")
    assert synced[:3] == ["a", "c", "d"]
    files = json.loads((tmp_path / CHECKSUMS_FILE).read_text())["files"]
    assert {name: facts["bytes"] for name, facts in files.items()} == {"a": 1, "memory/c": 8, "memory/deep/d": 13}
    seal(tmp_path, "b", without=("memory",))
    assert json.loads((tmp_path / CHECKSUMS_FILE).read_text())["files"].keys() == {"a", "b"}
    assert damaged(tmp_path) == []


def test_rows_that_a_checkpoint_counts_on_are_on_the_disk(tmp_path, synced):
    with closing(MetricsLog(tmp_path / "metrics.jsonl")) as log:
        log.write({"episode": 1})
        at = log.position()
        assert (synced, at) == (["metrics.jsonl"], (tmp_path / "metrics.jsonl").stat().st_size)
        assert at == len('{"episode": 1}\n')
        assert log.sha256 == hashlib.sha256((tmp_path / "metrics.jsonl").read_bytes()).hexdigest()


def test_a_file_that_could_not_be_written_is_the_old_one_and_nothing_else_is_left(tmp_path, monkeypatch):
    write_atomically(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", lambda fd: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_replaced_as_a_whole_or_not_at_all(finished, there):
    def names() -> list[str]:
        return sorted(str(path.relative_to(finished)) for path in finished.rglob("*") if "lock" not in path.name)

    if there:
        (finished / "memory").mkdir()
        (finished / "memory" / "old").write_text("")
    with closing(RunFolder.resume(finished)) as folder:
        before = names()
        with pytest.raises(FileNotFoundError), folder.replacing(folder.memory) as fresh:
            (fresh / "half" / "file").write_text("")
        assert names() == before
        for _ in range(2):  # nothing of the first hinders the second
            with folder.replacing(folder.memory) as fresh:
                (fresh / "new").write_text("")
            assert names() == ["memory", "memory/new", "old.txt", "recipe.yaml", "run.log"]


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        (".a.12.tmp", True), (".a.tmp", True), (".b.1.tmp", True), (".ab.1.tmp", False), (".a.x.tmp", False),
        ("a.12.tmp", False), (".a.12.tmp.old", False), (".c.12.tmp", False), ("a", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_of_leftovers_those_of_our_names_go(tmp_path, name, goes, kind):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept").mkdir(parents=True)
    path = tmp_path / "run" / name
    (path if kind == "folder" else path.parent).mkdir(parents=True)
    if kind == "folder":
        (path / "inner").write_text("")
    elif kind == "file":
        path.write_text("")
    else:
        path.symlink_to(elsewhere, target_is_directory=True)
    clear_leftovers(tmp_path / "run", "a|b")
    assert path.is_symlink() or path.exists() is not goes
    assert path.is_symlink() is (kind == "link" and not goes)
    assert (elsewhere / "kept").exists()
    clear_leftovers(tmp_path / "nowhere", "a|b")


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


@pytest.mark.parametrize("there", [True, False])
def test_the_commit_of_the_source_tree_is_written_down_if_it_is_one(tmp_path, monkeypatch, there):
    from cbrcore.runs import resuming

    tree = tmp_path / "tree"
    (tree / "cbrcore" / "runs").mkdir(parents=True)
    commit = None
    if there:
        words = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"]
        for each in (["init", "-q"], words):
            subprocess.run(["git", *each], cwd=tree, check=True)
        said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, check=True, capture_output=True, text=True)
        commit = said.stdout.strip()
        assert len(commit) == 40
    monkeypatch.setattr(resuming, "__file__", str(tree / "cbrcore" / "runs" / "resuming.py"))
    assert resuming.versions("cpu", {"cbr_vq": "cbr 1"})["git_commit"] == commit
