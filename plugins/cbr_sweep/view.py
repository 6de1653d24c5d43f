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

from cbr_sweep.folder import RunState
from cbr_sweep.status import Pace, RunStatus, counts, duration, pace, per
from cbrcore.console import say
from cbrcore.errors import printable
from cbrcore.tables import aligned

SECONDS_BETWEEN_LINES = 60.0
COLOURS = {
    RunState.DONE: "green",
    RunState.RUNNING: "cyan",
    RunState.FAILED: "red",
    RunState.INTERRUPTED: "yellow",
}
URGENCY = (
    RunState.RUNNING,
    RunState.FAILED,
    RunState.INTERRUPTED,
    RunState.IN_USE,
    RunState.STARTED,
    RunState.NEW,
    RunState.DONE,
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

    def changed(self, status: RunStatus, runs: Sequence[RunStatus]) -> None:
        """A run's state is another one now."""
        ...

    def refresh(self, runs: Sequence[RunStatus]) -> None:
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
        say(message)

    def changed(self, status: RunStatus, runs: Sequence[RunStatus]) -> None:
        ended = sum(run.state in (RunState.DONE, RunState.FAILED) for run in runs)
        took = "" if status.state in (RunState.RUNNING, RunState.IN_USE) else f" after {duration(status.seconds)}"
        found = pace(runs)
        left = found and f"; about {duration(found.seconds_left)} left"
        self.say(f"[{ended}/{len(runs)}] {status.id}: {status.state}{took}{left or ''}")
        self._shown = time.monotonic()

    def refresh(self, runs: Sequence[RunStatus]) -> None:
        if time.monotonic() - self._shown < SECONDS_BETWEEN_LINES:
            return
        self._shown = time.monotonic()
        running = [f"{run.id} {progress_text(run)}{_speed(run)}" for run in runs if run.state is RunState.RUNNING]
        found = pace(runs)
        speed = found and f" ({runs_per_hour(found)}, about {duration(found.seconds_left)} left)"
        self.say(f"{counts(runs)}{speed or ''}: {'; '.join(running)}")


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
        self._live.console.print(printable(message, keep="\n"), markup=False, highlight=False)

    def changed(self, status: RunStatus, runs: Sequence[RunStatus]) -> None:
        self.refresh(runs)

    def refresh(self, runs: Sequence[RunStatus]) -> None:
        self._live.update(table(runs, self._live.console.height - 5), refresh=True)


def view() -> View:
    """The view that fits stderr."""
    return LiveView() if sys.stderr.isatty() else PlainView()


def table(runs: Sequence[RunStatus], rows: int) -> Table:
    """State, progress, rate and time left of each run, and of the whole sweep below them.

    Where there is no room for all, the most urgent `rows` ones are shown, in the sweep's order.
    """
    urgent = sorted(runs, key=lambda status: URGENCY.index(status.state))[: max(rows, 1)]
    shown = [status for status in runs if status in urgent]
    hidden = f", {len(runs) - len(shown)} not shown" if len(shown) < len(runs) else ""
    made = Table("run", "state", "progress", "rate", "left", title=counts(runs) + hidden, box=None)
    for status in shown:
        made.add_row(*(Text(printable(cell)) for cell in cells(status)), style=COLOURS.get(status.state))
    if (found := pace(runs)) is not None:
        made.show_footer = True
        for column, text in zip(made.columns, totals(runs, found), strict=True):
            column.footer = Text(text)
    return made


def cells(status: RunStatus) -> tuple[str, str, str, str, str]:
    """The row of one run."""
    if status.state is not RunState.RUNNING:
        took = duration(status.seconds) if status.seconds else ""
        return status.id, str(status.state), took and f"in {took}", "", ""
    rate = "" if status.rate is None else per(status.rate, "/s")
    return status.id, str(status.state), progress_text(status), rate, duration(status.seconds_left)


def _speed(status: RunStatus) -> str:
    """Rate and time left of the phase, where they are known."""
    if status.rate is None:
        return ""
    return f" ({per(status.rate, '/s')}, {duration(status.seconds_left)} left)"


def totals(runs: Sequence[RunStatus], found: Pace) -> tuple[str, str, str, str, str]:
    """The row of the whole sweep."""
    done = sum(status.state is RunState.DONE for status in runs)
    return "whole sweep", "", f"{done}/{len(runs)} runs", runs_per_hour(found), duration(found.seconds_left)


def runs_per_hour(found: Pace) -> str:
    return per(3600 * found.runs_per_second, " runs/h")


def progress_text(status: RunStatus) -> str:
    """As in "training (game plays) 37/100"."""
    found = status.progress
    return "starting" if found is None else f"{found.title} {found.done}/{found.total}"


def overview(runs: Sequence[RunStatus]) -> str:
    """The runs with state and choices, and how many there are."""
    rows = [("run", "state", "choices"), *((run.id, str(run.state), _choices(run)) for run in runs)]
    return f"{aligned(rows)}\n\n{len(runs)} runs: {counts(runs)}"


def _choices(status: RunStatus) -> str:
    return ", ".join(f"{axis}: {choice}" for axis, choice in status.planned.run.choices.items())
