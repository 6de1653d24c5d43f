"""W&B, offline: what its files hold, that a resume goes on with the same run, and that nothing is left or sent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import wandb_files

from cbr_wandb.config import WandbConfig
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.runs.folder import Recorders
from cbrcore.testing import RecorderSuite

recorder_module = pytest.importorskip("cbr_wandb.recorder", exc_type=ImportError)
ID_FILE, WandbRecorder = recorder_module.ID_FILE, recorder_module.WandbRecorder
wandb = pytest.importorskip("wandb")
pytestmark = pytest.mark.timeout(120)


def services() -> set[int]:
    """W&B's service processes that this process has started and that still run."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if text.startswith("Name:\twandb-core") and f"PPid:\t{os.getpid()}\n" in text and "State:\tZ" not in text:
            found.add(int(status.parent.name))
    return found


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """W&B's own folders are below tmp_path, its variables are those of the test, and its service ends with it."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "NETRC"):
        monkeypatch.setenv(name, str(tmp_path / "wandb-own" / name.lower()))
    yield
    assert wandb.run is None
    assert services() == set()
    assert "WANDB_SERVICE" not in os.environ


def record(folder, *rows, config=None, after=0, recipe=None, results=None):
    recorder = WandbRecorder(config or WandbConfig(), Build(recipe_dir=folder.parent))
    recorder.begin(folder, recipe or {"name": "r"}, after=after)
    for row in rows:
        recorder.write(row)
    if results is not None:
        recorder.finish(results)
    recorder.close()


def run_of(path):
    """The message with which a file's run begins."""
    return next(r.run for r in wandb_files.records(path) if r.WhichOneof("record_type") == "run")


class TestWandb(RecorderSuite):
    def make(self, build):
        return WandbRecorder(WandbConfig(), build)

    def read_back(self, folder):
        return wandb_files.series(folder)


def test_the_run_is_described_by_settings_recipe_and_results(tmp_path):
    folder = tmp_path / "a run"
    folder.mkdir()
    config = WandbConfig(project="p", entity="me", group="g", tags=("x", "y"))
    recipe = {"name": "r", "agent": {"use": "cbr_text/text", "hidden": 64}, "cases": None}
    results = {"evaluation": {"in": {"steps": {"mean": 2.5}, "mode": "sampled"}}}
    record(folder, {"episode": 1, "score": 1.0}, config=config, recipe=recipe, results=results)
    (path,) = wandb_files.files(folder)
    run = run_of(path)
    assert (run.project, run.entity, run.run_group, [*run.tags]) == ("p", "me", "g", ["x", "y"])
    assert (run.run_id, run.display_name) == ((folder / ID_FILE).read_text().strip(), "a run")
    assert recipe.items() <= wandb_files.config(path).items()
    assert results.items() <= wandb_files.summary(path).items()
    (ended,) = [r.exit for r in wandb_files.records(path) if r.WhichOneof("record_type") == "exit"]
    assert ended.exit_code == 0


def test_a_resumed_run_goes_on_with_the_same_id_and_says_from_where(tmp_path):
    recipe = {"run": {"episodes": 10}}
    record(tmp_path, {"episode": 1, "score": 1.0}, {"episode": 2, "score": 1.0}, recipe=recipe)
    recipe = {"run": {"episodes": 20}}  # what a resume may change
    record(tmp_path, {"episode": 2, "score": 2.0}, recipe=recipe, after=1, results={})
    first, second = wandb_files.files(tmp_path)
    assert run_of(first).run_id == run_of(second).run_id
    assert wandb_files.config(second)["resumed_after"] == 1
    assert "resumed_after" not in wandb_files.config(first)
    assert wandb_files.config(second)["run"] == {"episodes": 20}
    codes = [r.exit.exit_code for f in (first, second) for r in wandb_files.records(f) if r.HasField("exit")]
    assert codes == [1, 0]


def test_what_is_not_finite_is_left_out(tmp_path):
    record(tmp_path, {"episode": 1, "a": float("nan"), "b": float("inf"), "c": 1, "d": True})
    assert wandb_files.series(tmp_path) == {"c": {1: 1}, "d": {1: True}}


def test_the_folder_may_be_elsewhere(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    record(folder, {"episode": 1, "a": 1}, config=WandbConfig(directory="all of them"))
    assert [path.name for path in folder.iterdir()] == [ID_FILE]
    assert wandb_files.series(tmp_path / "all of them") == {"a": {1: 1}}


def test_disabled_it_does_nothing(tmp_path):
    record(tmp_path, {"episode": 1, "a": 1}, config=WandbConfig(mode="disabled"), results={})
    assert [*tmp_path.iterdir()] == []


def test_it_writes_nothing_to_the_terminal_and_leaves_no_variables(tmp_path, capfd):
    before = {**os.environ}
    record(tmp_path, {"episode": 1, "a": 1}, results={"x": 1})
    assert capfd.readouterr() == ("", "")
    assert {**os.environ} == before


def test_another_user_of_wandb_in_the_process_notices_nothing(tmp_path):
    (tmp_path / "run").mkdir()
    settings = wandb.Settings(silent=True, console="off")
    with wandb.init(mode="offline", dir=tmp_path, project="other", settings=settings) as other:
        record(tmp_path / "run", {"episode": 1, "a": 1})
        assert wandb.run is other
        other.log({"b": 1})
    wandb.teardown()
    assert wandb_files.series(tmp_path) == {"b": {0: 1}}
    assert wandb_files.series(tmp_path / "run") == {"a": {1: 1}}


OFFLINE = """
import pathlib, sys
from cbr_wandb.config import WandbConfig
from cbr_wandb.recorder import WandbRecorder
from cbrcore.interfaces import Build
recorder = WandbRecorder(WandbConfig(), Build())
recorder.begin(pathlib.Path(sys.argv[1]), {}, after=0)
recorder.write({"episode": 1, "a": 1})
recorder.finish({})
recorder.close()
"""


def test_offline_nothing_is_sent_not_even_when_the_process_ends(tmp_path):
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    calls.append(connection.recv(200))

        threading.Thread(target=listen, daemon=True).start()
        env = {**os.environ, "WANDB_BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}"}
        subprocess.run([sys.executable, "-c", OFFLINE, str(tmp_path)], env=env, check=True, timeout=100)
        server.shutdown(socket.SHUT_RDWR)
    assert wandb_files.series(tmp_path) == {"a": {1: 1}}
    assert calls == []


@pytest.mark.parametrize("config", [WandbConfig(), WandbConfig(directory="file/below")])
def test_a_folder_that_cannot_be_written_is_explained_at_the_beginning(tmp_path, config):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" if config.directory is None else tmp_path
    recorder = WandbRecorder(config, Build(recipe_dir=tmp_path))
    with pytest.raises(CbrError, match="make room in"):
        recorder.begin(folder, {}, after=0)


def test_online_without_a_login_is_explained_at_the_beginning(tmp_path):
    with pytest.raises(CbrError, match="nobody is logged in\n  wandb login"):
        WandbRecorder(WandbConfig(mode="online"), Build()).begin(tmp_path, {}, after=0)


def test_online_without_a_server_is_explained_at_the_beginning(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "3")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    with pytest.raises(CbrError, match="mode: offline"):
        WandbRecorder(WandbConfig(mode="online"), Build()).begin(tmp_path, {}, after=0)


def test_a_service_that_dies_ends_the_recording_and_not_the_run(tmp_path, caplog):
    recorders = Recorders([("cbr_wandb/wandb", WandbRecorder(WandbConfig(), Build()))])
    recorders.begin(tmp_path, {}, after=0)
    recorders.write({"episode": 1, "score": 1.0})
    for process in services():
        os.kill(process, signal.SIGKILL)
    for episode in range(2, 300):
        recorders.write({"episode": episode, "score": 1.0})
    recorders.finish({"a": 1})
    recorders.close()
    warnings = [entry.getMessage() for entry in caplog.records if entry.name == "cbrcore.runs.folder"]
    assert len(warnings) == 1
    assert warnings[0].startswith("cbr_wandb/wandb failed and records no more")
