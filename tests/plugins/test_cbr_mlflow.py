"""MLflow: what its own client reads, how runs end and go on, its limits, and runs that begin at the same time."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from cbr_mlflow.config import MlflowConfig
from cbr_mlflow.names import MAX_BYTES, MAX_VALUE, Names, allowed, parameter
from cbr_mlflow.variables import WANTED, our_variables
from cbr_sweep.differences import flat
from cbrcore.errors import CbrError, Interrupted
from cbrcore.interfaces import Build
from cbrcore.runs.folder import Recorders
from cbrcore.testing import RecorderSuite

recorder_module = pytest.importorskip("cbr_mlflow.recorder", exc_type=ImportError)
ID_FILE, MlflowRecorder = recorder_module.ID_FILE, recorder_module.MlflowRecorder
mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """None of MLflow's variables is set, and none stays behind."""
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    yield
    assert not {*WANTED, "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"} & {*os.environ}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "runs" / "a run").mkdir(parents=True)
    return tmp_path / "runs" / "a run"


def client(place):
    with our_variables():
        return mlflow.MlflowClient(tracking_uri=place, registry_uri=place)


def beside(folder):
    """A client for the store beside the run folder."""
    return client((folder.parent / "mlruns").as_uri())


def run_of(folder, reader=None):
    return (reader or beside(folder)).get_run((folder / ID_FILE).read_text().strip())


def series(folder):
    """name -> step -> value; of two values at a step the later one."""
    reader, run = beside(folder), run_of(folder)
    return {
        name: {point.step: point.value for point in reader.get_metric_history(run.info.run_id, name)}
        for name in run.data.metrics
    }


def begun(folder, *rows, config=None, recipe=None, after=0):
    recorder = MlflowRecorder(config or MlflowConfig(), Build(recipe_dir=folder.parent))
    recorder.begin(folder, recipe or {"name": "r"}, after=after)
    for row in rows:
        recorder.write(row)
    return recorder


class TestMlflow(RecorderSuite):
    def make(self, build):
        return MlflowRecorder(MlflowConfig(), build)

    def read_back(self, folder):
        return series(folder)


def test_the_run_is_described_by_settings_recipe_and_results(folder):
    recipe = {"name": "r", "agent": {"use": "cbr_text/text", "hidden": 64}, "cases": None, "splits": ["in", "out"]}
    recorder = begun(folder, config=MlflowConfig(experiment="e", run_name="n", tags={"k": "v"}), recipe=recipe)
    results = {
        "schema": 1,
        "protocol": {"seed": 1},
        "name": "x",
        "evaluation": {"in": {"steps": {"mean": 2.5}, "games": {"one": {"steps": 3}}, "mode": "sampled"}},
        "training": {"env_steps": 100, "note": None},
    }
    recorder.finish(results)
    recorder.close()
    run = run_of(folder)
    assert run.data.params == {
        "name": "r", "agent.use": "cbr_text/text", "agent.hidden": "64", "cases": "null", "splits": '["in", "out"]'
    }  # fmt: skip
    assert run.data.metrics == {"evaluation.in.steps.mean": 2.5, "training.env_steps": 100}
    assert (run.info.run_name, run.info.status, run.data.tags["k"]) == ("n", "FINISHED", "v")
    assert beside(folder).get_experiment(run.info.experiment_id).name == "e"
    stored = Path(beside(folder).download_artifacts(run.info.run_id, "results.json", str(folder)))
    assert json.loads(stored.read_text()) == results


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, "KILLED"), (Interrupted("stop"), "KILLED"), (KeyboardInterrupt(), "KILLED"), (ValueError(), "FAILED")],
)
def test_a_run_that_ends_early_says_how(folder, error, status):
    recorder = begun(folder)
    assert run_of(folder).info.status == "RUNNING"
    with nullcontext() if error is None else pytest.raises(type(error)):
        try:
            if error is not None:
                raise error
        finally:
            recorder.close()
    assert run_of(folder).info.status == status


def test_a_resumed_run_goes_on_with_the_same_run_and_says_from_where(folder):
    begun(folder, {"episode": 1, "a": 1}, {"episode": 2, "a": 2}, recipe={"run": {"episodes": 10}}).close()
    first = run_of(folder)
    recorder = begun(folder, {"episode": 2, "a": 3}, recipe={"run": {"episodes": 20}, "new": 1}, after=1)
    assert run_of(folder).info.status == "RUNNING"
    recorder.close()
    begun(folder, after=2).close()
    second = run_of(folder)
    assert second.info.run_id == first.info.run_id
    assert second.data.params == {"run.episodes": "10", "new": "1", "name": "r"}
    assert second.data.tags["resumed.run.episodes"] == "20"
    assert second.data.tags["resumed_after"] == "1, 2"
    history = beside(folder).get_metric_history(first.info.run_id, "a")
    assert [(point.step, point.value) for point in history] == [(1, 1), (2, 2), (2, 3)]


def test_what_is_not_finite_is_left_out(folder):
    begun(folder, {"episode": 1, "a": float("nan"), "b": float("inf"), "c": 1}).close()
    assert series(folder) == {"c": {1: 1}}


def test_a_row_and_a_recipe_may_be_larger_than_a_batch(folder):
    recipe = {f"p{number}": number for number in range(250)}
    begun(folder, {"episode": 1} | {f"m{number}": number for number in range(1500)}, recipe=recipe).close()
    run = run_of(folder)
    assert len(run.data.params) == 250
    assert len(run.data.metrics) == 1500


ODD = [
    "loss (mean)",
    "a%",
    "../x",
    "/a",
    "a//b",
    ".",
    "ü" * 300,
    "x" * 300,
    "a\nb",
    "loss/policy",
    "loss",
    "loss/policy/x",
]


def test_any_name_is_taken_by_mlflow_in_every_session(folder):
    for after in (0, 1):
        row = {"episode": after + 1} | dict.fromkeys(ODD if after == 0 else ODD[::-1], 0.5)
        begun(folder, row, recipe=dict.fromkeys(ODD[:8], "two\nlines"), after=after).close()
    assert all(points == {1: 0.5, 2: 0.5} for points in series(folder).values())
    assert len(series(folder)) == len(ODD)
    assert len(run_of(folder).data.params) == 8


def test_what_mlflow_cannot_tell_apart_has_a_name_each_in_every_session(folder):
    alike = {"hit@1": 1.0, "hit#1": 2.0, "hit_1": 3.0, "x" * 250 + "y": 4.0, "x" * 250 + "z": 5.0}
    for episode in (1, 2):
        begun(folder, {"episode": episode} | alike, recipe={"a@": 1, "a#": 2}, after=episode - 1).close()
    assert sorted(map(tuple, (points.items() for points in series(folder).values()))) == [
        ((1, value), (2, value)) for value in alike.values()
    ]
    assert sorted(run_of(folder).data.params.items()) == [("a_", "1"), ("a__", "2")]
    assert all(len(name.encode()) <= MAX_BYTES for name in series(folder))


def test_names_stay_as_they_are_where_they_can():
    for name in ("loss/policy", "code.usage", "Größe μ", "a-b: c"):
        assert allowed(name) == name
    names = Names()
    assert [names.of(name) for name in ("loss/policy", "loss", "loss/policy/x")] == [
        "loss/policy", "loss_", "loss_policy_x"
    ]  # fmt: skip
    assert all(len(allowed(name).encode()) <= MAX_BYTES for name in ODD)


def test_long_values_are_cut_and_nested_ones_have_dotted_names(folder):
    assert len(parameter("x" * 10_000)) == MAX_VALUE
    assert dict(flat({"a": {"b": {"c": 1}, "d": {}}, "e": None})) == {"a.b.c": 1, "a.d": {}, "e": None}
    begun(folder, recipe={"text": "ä" * 10_000}).close()
    assert run_of(folder).data.params["text"] == "ä" * (MAX_VALUE - 1) + "…"


def test_the_limits_are_those_of_the_installed_mlflow():
    from mlflow.utils import validation

    assert MAX_BYTES <= validation.MAX_ENTITY_KEY_LENGTH
    assert MAX_VALUE <= validation.MAX_PARAM_VAL_LENGTH


def test_the_store_may_be_elsewhere(folder, tmp_path):
    for place in ("all of them", (tmp_path / "by uri").as_uri()):
        (folder / ID_FILE).unlink(missing_ok=True)
        begun(folder, {"episode": 1, "a": 1}, config=MlflowConfig(tracking_uri=place)).close()
    assert run_of(folder, client((tmp_path / "by uri").as_uri())).data.metrics == {"a": 1}
    assert (folder.parent / "all of them").is_dir()
    assert not (folder.parent / "mlruns").exists()


def test_mlflow_itself_is_left_as_it_was(folder, capfd):
    before = mlflow.get_tracking_uri()
    recorder = begun(folder, {"episode": 1, "a": 1})
    assert mlflow.active_run() is None
    recorder.finish({"a": 1})
    recorder.close()
    assert mlflow.get_tracking_uri() == before
    assert capfd.readouterr() == ("", "")


BEGIN = """
import pathlib, sys
from cbr_mlflow.config import MlflowConfig
from cbr_mlflow.recorder import MlflowRecorder
from cbrcore.interfaces import Build
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
recorder = MlflowRecorder(MlflowConfig(), Build())
print("ready", flush=True)
sys.stdin.readline()
recorder.begin(folder, {}, after=0)
recorder.close()
"""


def test_runs_that_begin_together_share_one_experiment(tmp_path):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(tmp_path / "runs" / str(number))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    assert [process.stdout.readline() for process in started] == ["ready\n"] * 4
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=60)
    assert [process.returncode for process in started] == [0] * 4
    reader = beside(tmp_path / "runs" / "0")
    (experiment,) = [found for found in reader.search_experiments() if found.name == "cbr"]
    assert len(reader.search_runs([experiment.experiment_id])) == 4


@pytest.mark.filterwarnings("ignore:The ``noload`` loader")
def test_a_database_can_be_the_store(folder, tmp_path):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("alembic")
    place = f"sqlite:///{tmp_path / 'mlflow.db'}"
    recorder = begun(folder, {"episode": 1, "loss/policy": 1, "loss": 2}, config=MlflowConfig(tracking_uri=place))
    recorder.close()
    assert run_of(folder, client(place)).data.metrics == {"loss/policy": 1, "loss_": 2}


@pytest.mark.parametrize("place", ["file/below", "ftp://nowhere"])
def test_a_store_that_cannot_be_used_is_explained_at_the_beginning(folder, place):
    (folder.parent / "file").write_text("")
    with pytest.raises(CbrError, match="mend `tracking_uri`"):
        begun(folder, config=MlflowConfig(tracking_uri=place))


def test_a_store_that_has_lost_the_run_is_explained(folder):
    (folder / ID_FILE).write_text("0123456789abcdef0123456789abcdef\n")
    with pytest.raises(CbrError, match=f"remove .*{ID_FILE}"):
        begun(folder, after=1)


def test_whoever_forbids_files_is_obeyed(folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    try:
        with pytest.raises(CbrError, match="MLFLOW_ALLOW_FILE_STORE"):
            begun(folder)
    finally:
        monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")


def test_a_full_disk_ends_the_recording_and_not_the_run(folder, caplog):
    recorders = Recorders([("cbr_mlflow/mlflow", MlflowRecorder(MlflowConfig(), Build()))])
    recorders.begin(folder, {}, after=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5 * len("1800000000000 1.0 1\n"), limits[1]))
    try:
        for episode in range(1, 50):
            recorders.write({"episode": episode, "score": 1.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    recorders.finish({"a": 1})
    recorders.close()
    warnings = [entry.getMessage() for entry in caplog.records if entry.name == "cbrcore.runs.folder"]
    assert len(warnings) == 1
    assert warnings[0].startswith("cbr_mlflow/mlflow failed and records no more")
    assert series(folder) == {"score": dict.fromkeys(range(1, 6), 1.0)}
    begun(folder, {"episode": 4, "score": 2.0}, after=3).close()  # there is room again
    assert series(folder)["score"] == {1: 1.0, 2: 1.0, 3: 1.0, 4: 2.0, 5: 1.0}
