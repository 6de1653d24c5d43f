"""What is known of each run while a sweep works: its state, how far it is, how fast, how long it will take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cbr_sweep.folder import Planned, State
from cbrcore.console import PhaseProgress, last_progress

TAIL = 8192
"""Bytes at a log's end that are read for progress."""


@dataclass
class Status:
    """One run. `offset` is where its log began when its process was started."""

    planned: Planned
    state: State
    log: Path
    offset: int = 0
    started: float = 0.0
    seconds: float = 0.0
    progress: PhaseProgress | None = None
    _first: tuple[int, float] = (0, 0.0)
    _last: tuple[int, float] = (0, 0.0)

    @property
    def id(self) -> str:
        return self.planned.id

    def start(self) -> None:
        """Its process is started about now."""
        self.state, self.started, self.progress = State.RUNNING, time.monotonic(), None

    def end(self, state: State) -> None:
        self.state, self.seconds = state, time.monotonic() - self.started

    def look(self, now: float) -> None:
        """Read from the log how far it is."""
        found = last_progress(self.said())
        if found is None or found == self.progress:
            return
        if self.progress is None or found.title != self.progress.title:
            self._first = found.done, now
        self.progress, self._last = found, (found.done, now)

    def said(self) -> str:
        """The end of what its process has printed."""
        if not self.log.is_file():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(self.offset, self.log.stat().st_size - TAIL))
            return file.read().decode(errors="replace")

    def last_error(self) -> str:
        """The line in which it said why it failed; the last one if there is no such line."""
        lines = [line.strip() for line in self.said().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines or ["it printed nothing"])[-1].removeprefix("error: ")

    @property
    def rate(self) -> float | None:
        """Units of its progress per second; None as long as it is not known."""
        done, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return done / seconds if self.progress and done > 0 and seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Until the phase that it is in ends."""
        if self.progress is None or self.rate is None:
            return None
        return (self.progress.total - self.progress.done) / self.rate


def counts(runs: Iterable[Status]) -> str:
    """As in "3 done, 2 running, 7 new"."""
    found = Counter(status.state for status in runs)
    order = (
        State.DONE,
        State.RUNNING,
        State.STARTED,
        State.NEW,
        State.IN_USE,
        State.INTERRUPTED,
        State.FAILED,
    )
    return ", ".join(f"{found[state]} {state}" for state in order if found[state])


def duration(seconds: float | None) -> str:
    """As in "45 s", "12 min", "3 h 20 min"."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
