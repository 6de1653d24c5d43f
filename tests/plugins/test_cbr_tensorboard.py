"""TensorBoard: scalars as the tool itself reads them, what a resume voids, and machines without it."""

from __future__ import annotations

import logging
import resource
import sys
import threading

import pytest

from cbr_tensorboard.recorder import TensorBoardRecorder
from cbrcore.config import NoSettings
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build
from cbrcore.runs.folder import Recorders
from cbrcore.testing import RecorderSuite

event_file_writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")


def scalars(folder):
    """name -> step -> value, as TensorBoard shows it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: {e.step: e.value for e in seen.Scalars(tag)} for tag in seen.Tags()["scalars"]}


class TestTensorBoard(RecorderSuite):
    def make(self, build):
        return TensorBoardRecorder(NoSettings(), build)

    def read_back(self, folder):
        assert list(folder.glob("events.out.*"))
        return scalars(folder)


@pytest.mark.parametrize("files", [8, 9])
def test_a_longer_dead_run_leaves_nothing_behind(tmp_path, monkeypatch, files):
    """Also where the names, which end with a number, would be read as "9" after "10"."""
    numbers = event_file_writer._global_uid
    monkeypatch.setattr(event_file_writer, "_global_uid", type(numbers)(files))
    for after, episodes in ((0, range(1, 9)), (3, range(4, 6))):
        recorder = TensorBoardRecorder(NoSettings(), Build())
        recorder.begin(tmp_path, {}, after=after)
        for episode in episodes:
            recorder.write({"episode": episode, "score": episode + after})
        recorder.close()
    assert scalars(tmp_path) == {"score": {1: 1, 2: 2, 3: 3, 4: 7, 5: 8}}


def test_what_is_not_finite_is_left_out(tmp_path):
    recorder = TensorBoardRecorder(NoSettings(), Build())
    recorder.begin(tmp_path, {}, after=0)
    recorder.write({"episode": 1, "a": float("nan"), "b": float("inf"), "c": 1})
    recorder.close()
    assert scalars(tmp_path) == {"c": {1: 1}}


def test_without_tensorboard_it_says_once_what_to_install_and_does_nothing(tmp_path, monkeypatch, caplog):
    for name in [name for name in sys.modules if name.startswith(("tensorboard", "torch.utils.tensorboard"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    recorder = TensorBoardRecorder(NoSettings(), Build())
    with caplog.at_level(logging.INFO):
        recorder.begin(tmp_path, {}, after=0)
        recorder.write({"episode": 1, "score": 1.0})
        recorder.finish({})
        recorder.close()
    assert [record.getMessage() for record in caplog.records] == [
        "no TensorBoard files: pip install 'cbr-textrl[tensorboard]'"
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "raised", ["TypeError('protobuf')", "ImportError('no proto')", "SystemExit(3)", "RuntimeError"]
)
def test_a_broken_tensorboard_is_one_warning(tmp_path, monkeypatch, caplog, raised):
    for name in [name for name in sys.modules if name.startswith(("tensorboard", "torch.utils.tensorboard"))]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "__init__.py").write_text(f"raise {raised}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    recorder = TensorBoardRecorder(NoSettings(), Build())
    (tmp_path / "run").mkdir()
    recorder.begin(tmp_path / "run", {}, after=0)
    recorder.write({"episode": 1, "score": 1.0})
    recorder.close()
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert raised.split("(")[0] in said
    assert "pip install" in said
    assert list((tmp_path / "run").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_explained_at_the_beginning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CbrError, match="make room in"):
        TensorBoardRecorder(NoSettings(), Build()).begin(tmp_path / "file", {}, after=0)


def test_a_full_disk_ends_the_recording_and_not_the_run(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)  # TensorBoard writes in a thread
    recorders = Recorders([("cbr_tensorboard/tensorboard", TensorBoardRecorder(NoSettings(), Build()))])
    recorders.begin(tmp_path, {}, after=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        for episode in range(1, 2000):
            recorders.write({"episode": episode, "score": 1.0, "steps": 7})
        recorders.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    recorders.close()
    assert [record.getMessage()[:55] for record in caplog.records if record.levelname == "WARNING"] == [
        "cbr_tensorboard/tensorboard failed and records no more:"
    ]
