"""What is known of each run while a sweep works: its state, how far it is, how fast, how long it will take."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from cbr_sweep.folder import PlannedRun, RunState, SweepFolder
from cbrcore.console import PhaseProgress
from cbrcore.runs.folder import PROGRESS_FILE

TAIL = 8192
"""Bytes at a log's end in which an error is looked for."""
SECONDS_OF_RATE = 30.0
"""A rate is that of about so many seconds, to twice as many: it follows a run that gets slower or faster."""


@dataclass
class RunStatus:
    """One run of a sweep at work.

    Attributes:
        folder: the run's folder; what it says of the run's progress is `progress`.
        log: what the run's processes print.
        seconds: since its process has begun, or how long it worked.
        why: what its end or its results say against it, beside what it printed.
    """

    planned: PlannedRun
    state: RunState
    folder: Path
    log: Path
    started: float | None = None
    seconds: float = 0.0
    progress: PhaseProgress | None = None
    why: str = ""
    _said_before: int = 0
    _progress_before: tuple[int, int] | None = None
    _first: tuple[int, float] = (0, 0.0)
    _middle: tuple[int, float] = (0, 0.0)
    _last: tuple[int, float] = (0, 0.0)

    @classmethod
    def of(cls, planned: PlannedRun, folder: SweepFolder) -> RunStatus:
        """By what lies in the sweep's folder."""
        state, paths = folder.state(planned), (folder.run(planned.id), folder.log(planned.id))
        return cls(planned, state, *paths, why=folder.wrong_results(planned) or "")

    @property
    def id(self) -> str:
        return self.planned.id

    def launched(self) -> None:
        """A process is about to be started for it: what log and progress file hold by now is of an earlier one."""
        self.why = ""
        self._said_before = self.log.stat().st_size if self.log.is_file() else -1
        self._progress_before = self._progress_stamp()

    def has_spoken(self) -> bool:
        """Whether its process has begun to write the log."""
        return self.log.is_file() and self.log.stat().st_size > self._said_before

    def start(self, now: float) -> None:
        """Its process has begun about now."""
        self.state, self.started, self.progress = RunState.RUNNING, now, None

    def end(self, state: RunState, now: float) -> None:
        self.state, self.seconds = state, now - (now if self.started is None else self.started)

    def look(self, now: float) -> None:
        """See how far it is. A file that a killed process has left says nothing."""
        self.seconds = now - (now if self.started is None else self.started)
        if self._progress_stamp() == self._progress_before:
            return
        found, before = read_progress(self.folder / PROGRESS_FILE), self.progress
        if found is None or found == before:
            return
        if before is None or found.title != before.title or found.done < before.done:
            self._first = self._middle = found.done, now
        elif now - self._middle[1] >= SECONDS_OF_RATE:
            self._first, self._middle = self._middle, (found.done, now)
        self.progress, self._last = found, (found.done, now)

    def _progress_stamp(self) -> tuple[int, int] | None:
        """Another one whenever the progress is written; no clock is compared with that of another machine."""
        try:
            found = (self.folder / PROGRESS_FILE).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def last_error(self) -> str:
        """The line in which it said why it failed; the last one if there is no such line."""
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error: ")]
        said = (errors or lines or ["it printed nothing"])[-1].removeprefix("error: ")
        return f"{self.why}; its last words: {said}" if self.why else said

    def _said(self) -> str:
        """The end of what its process has printed."""
        if not self.log.is_file():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(self._said_before, self.log.stat().st_size - TAIL, 0))
            return file.read().decode(errors="replace")

    @property
    def rate(self) -> float | None:
        """Units of its progress per second, of late; None as long as it is not known."""
        done, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return done / seconds if self.progress and done > 0 and seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Until the phase that it is in ends."""
        if self.progress is None or self.rate is None:
            return None
        return max(self.progress.total - self.progress.done, 0) / self.rate


def read_progress(path: Path) -> PhaseProgress | None:
    """What a run has written there (`cbrcore.console.RecordedProgress`); None if there is nothing, or something
    else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return PhaseProgress(str(found["phase"]), int(found["done"]), int(found["total"]), str(found["note"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class Pace:
    """How fast a whole sweep is."""

    runs_per_second: float
    seconds_left: float


def pace(runs: Sequence[RunStatus]) -> Pace | None:
    """An estimate: every run takes as long as those did that were done here, or, before the first one is, as the
    running ones expect of their phase. None if nothing runs, or nothing is known yet."""
    running = [run for run in runs if run.state is RunState.RUNNING]
    took = [run.seconds for run in runs if run.state is RunState.DONE and run.started is not None]
    took = took or [run.seconds + run.seconds_left for run in running if run.seconds_left is not None]
    each = fmean(took) if took else 0.0
    if not running or not each:
        return None
    left = [max(each - run.seconds, run.seconds_left or 0.0) for run in running]
    waiting = sum(run.state in (RunState.NEW, RunState.STARTED) for run in runs)
    return Pace(len(running) / each, max((sum(left) + waiting * each) / len(running), *left))


def counts(runs: Iterable[RunStatus]) -> str:
    """As in "3 done, 2 running, 7 new"."""
    found = Counter(status.state for status in runs)
    order = (
        RunState.DONE,
        RunState.RUNNING,
        RunState.STARTED,
        RunState.NEW,
        RunState.IN_USE,
        RunState.INTERRUPTED,
        RunState.FAILED,
    )
    return ", ".join(f"{found[state]} {state}" for state in order if found[state])


def per(rate: float, unit: str) -> str:
    """As in "0.25/s", "37 runs/h"."""
    return f"{rate:.2g}{unit}" if rate < 10 else f"{rate:.0f}{unit}"


def duration(seconds: float | None) -> str:
    """As in "45 s", "12 min", "3 h 20 min"."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
