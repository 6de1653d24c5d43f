"""What a person sees while a sweep works: a live table on a terminal, lines otherwise. All of it on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cbr_sweep.folder import State
from cbr_sweep.status import Status, counts, duration

SECONDS_BETWEEN_LINES = 60.0
COLOURS = {State.DONE: "green", State.RUNNING: "cyan", State.FAILED: "red", State.INTERRUPTED: "yellow"}
URGENCY = (
    State.RUNNING,
    State.FAILED,
    State.INTERRUPTED,
    State.IN_USE,
    State.STARTED,
    State.NEW,
    State.DONE,
)
"""What is shown first where there is no room for all."""


class View(Protocol):
    """Shows a sweep at work."""

    def __enter__(self) -> View: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, message: str) -> None:
        """A line of its own."""
        ...

    def changed(self, status: Status, runs: Sequence[Status]) -> None:
        """A run's state is another one now."""
        ...

    def refresh(self, runs: Sequence[Status]) -> None:
        """Called often."""
        ...


class PlainView:
    """A line whenever a run starts or ends, and one every minute; for logs and pipes."""

    def __init__(self) -> None:
        self._shown = time.monotonic()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def say(self, message: str) -> None:
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()

    def changed(self, status: Status, runs: Sequence[Status]) -> None:
        ended = sum(run.state in (State.DONE, State.FAILED) for run in runs)
        took = "" if status.state in (State.RUNNING, State.IN_USE) else f" after {duration(status.seconds)}"
        self.say(f"[{ended}/{len(runs)}] {status.id}: {status.state}{took}")
        self._shown = time.monotonic()

    def refresh(self, runs: Sequence[Status]) -> None:
        if time.monotonic() - self._shown < SECONDS_BETWEEN_LINES:
            return
        self._shown = time.monotonic()
        running = [f"{run.id} {progress_text(run)}" for run in runs if run.state is State.RUNNING]
        self.say(f"{counts(runs)}: {'; '.join(running)}")


class LiveView:
    """A table that is kept up to date, for terminals."""

    def __init__(self) -> None:
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, message: str) -> None:
        self._live.console.print(message, markup=False, highlight=False)

    def changed(self, status: Status, runs: Sequence[Status]) -> None:
        self.refresh(runs)

    def refresh(self, runs: Sequence[Status]) -> None:
        self._live.update(table(runs, self._live.console.height - 4), refresh=True)


def view() -> View:
    """The view that fits stderr."""
    return LiveView() if sys.stderr.isatty() else PlainView()


def table(runs: Sequence[Status], rows: int) -> Table:
    """State, progress, rate and time left of each run; of the most urgent `rows` ones, in the sweep's order."""
    urgent = sorted(runs, key=lambda status: URGENCY.index(status.state))[: max(rows, 1)]
    shown = [status for status in runs if status in urgent]
    hidden = f", {len(runs) - len(shown)} not shown" if len(shown) < len(runs) else ""
    made = Table("run", "state", "progress", "rate", "left", title=counts(runs) + hidden, box=None)
    for status in shown:
        made.add_row(*map(Text, cells(status)), style=COLOURS.get(status.state))
    return made


def cells(status: Status) -> tuple[str, str, str, str, str]:
    """The row of one run."""
    if status.state is not State.RUNNING:
        took = duration(status.seconds) if status.seconds else ""
        return status.id, str(status.state), took and f"in {took}", "", ""
    rate = "" if status.rate is None else f"{status.rate:.2g}/s"
    return status.id, str(status.state), progress_text(status), rate, duration(status.seconds_left)


def progress_text(status: Status) -> str:
    """As in "training (game plays) 37/100"."""
    found = status.progress
    return "starting" if found is None else f"{found.title} {found.done}/{found.total}"
