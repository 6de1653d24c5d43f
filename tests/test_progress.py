"""A run's progress as a file: written now and then, gone at the end, and never in the run's way."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cbr_sweep.status import read_progress
from cbrcore import console
from cbrcore.console import PhaseProgress, PlainReporter, RecordedProgress
from cbrcore.runs.folder import PROGRESS_FILE


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / PROGRESS_FILE


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time in seconds, to be set."""
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    return now


def test_it_is_written_when_a_phase_begins_and_ends_and_once_a_second(path, clock, capfd):
    with RecordedProgress(PlainReporter(), path) as progress:
        assert read_progress(path) is None
        progress.phase("training", 3, done=0)
        told = {"phase": "training", "done": 0, "total": 3, "note": "", "began": 0, "seconds": 0.0}
        assert json.loads(path.read_text()) == told
        progress.advance("score 1")
        assert read_progress(path).done == 0  # not a second later
        clock[0] += 1.0
        progress.advance("score 2")
        assert read_progress(path) == PhaseProgress("training", 2, 3, "score 2")
        progress.advance("score 3")
        assert read_progress(path) == PhaseProgress("training", 3, 3, "score 3")
        progress.phase("evaluating", 10, done=4)
        assert read_progress(path) == PhaseProgress("evaluating", 4, 10)
        clock[0] += 2.5
        progress.advance()
        assert json.loads(path.read_text()).items() >= {"done": 5, "began": 4, "seconds": 2.5}.items()
        assert [entry.name for entry in path.parent.iterdir()] == [PROGRESS_FILE]
    assert list(path.parent.iterdir()) == []
    assert "training: 3/3  score 3" in capfd.readouterr().err  # shown to a person all the same


def test_it_is_gone_after_a_failure_and_what_a_killed_run_left_is_removed(path):
    path.write_text('{"phase": "old", "done": 1, "total": 2, "note": ""}')
    with contextlib.suppress(ZeroDivisionError), RecordedProgress(PlainReporter(), path) as progress:
        assert not path.exists()
        progress.phase("training", 3)
        assert path.exists()
        raise ZeroDivisionError
    assert not path.exists()


def test_what_a_plugin_says_is_no_progress(path, capfd):
    with PlainReporter() as shown, RecordedProgress(shown, path) as progress:
        progress.phase("training", 3)
        shown.say("x: 3/15")
        assert read_progress(path) == PhaseProgress("training", 0, 3)
    assert "x: 3/15\n" in capfd.readouterr().err


def test_a_full_disk_ends_no_run(path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with RecordedProgress(PlainReporter(), path) as progress:
        progress.phase("training", 3)
        monkeypatch.setattr(Path, "write_text", full)
        monkeypatch.setattr(Path, "unlink", full)
        progress.phase("evaluating", 1)
        progress.advance()
        assert read_progress(path) == PhaseProgress("training", 0, 3)


def test_a_folder_that_is_gone_ends_no_run(path):
    with RecordedProgress(PlainReporter(), path / "gone" / PROGRESS_FILE) as progress:
        progress.phase("training", 1)
        progress.advance()


@pytest.mark.parametrize("text", ["", "{", "x: 3/15", "[]", "3", '{"phase": "a"}', '{"phase": "a", "done": null}'])
def test_something_else_is_no_progress(path, text):
    path.write_text(text)
    assert read_progress(path) is None


def test_a_thousand_steps_a_second_write_once_a_second(path, clock, monkeypatch):
    written, write = [], Path.write_text

    def count(self: Path, text: str, **how: str) -> int:
        written.append(text)
        return write(self, text, **how)

    monkeypatch.setattr(Path, "write_text", count)
    with RecordedProgress(PlainReporter(), path) as progress:
        progress.phase("training", 10**9)
        for _ in range(10_000):
            clock[0] += 0.001
            progress.advance("score 1, 14 cases")
    assert 9 <= len(written) <= 11


RUN = """
from pathlib import Path
import sys
from cbrcore.console import PlainReporter, RecordedProgress
with RecordedProgress(PlainReporter(), Path(sys.argv[1])) as progress:
    for _ in range(500):
        progress.phase("a", 1)
"""


def test_a_reader_never_sees_half_of_it(path):
    with subprocess.Popen([sys.executable, "-c", RUN, path], stderr=subprocess.DEVNULL) as process:
        seen = set()
        while process.poll() is None:
            if path.exists():
                with contextlib.suppress(FileNotFoundError):  # it is done
                    seen.add(path.read_text())
        process.wait()
    assert process.returncode == 0
    assert seen == {'{"phase": "a", "done": 0, "total": 1, "note": "", "began": 0, "seconds": 0.0}\n'}
