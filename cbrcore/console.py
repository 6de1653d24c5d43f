"""What every command shares: options, plugins and recipes to start from, progress, Ctrl-C, and tables as text.

Messages go to stderr, results to stdout.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, cast

import typer

from cbrcore.errors import CbrError, PluginError, link_to_nowhere, printable

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_RECORDS = 1.0

# -- options -----------------------------------------------------------------------------------------------------


def run_folder(path: Path) -> Path:
    """The run that a path means: the folder itself, or the one that a shared run (FILE.cbr) is unpacked in."""
    if nowhere := link_to_nowhere(path):
        raise CbrError(nowhere, hint="mend or remove the link, or name another path")
    if path.suffix != ".cbr" or path.is_dir():
        return path
    from cbrcore.recipe.model import SHARING

    return cast(Path, SHARING.load_factory().unpacked(path))


def completing(kind: Literal["recipes", "runs", "components"]) -> Callable[[str], list[str]]:
    """Of an argument: what a shell offers for it."""

    def offered(incomplete: str) -> list[str]:
        from cbrcore.recipe.model import OFFERS

        with suppress(PluginError):
            return list(getattr(OFFERS.load_factory(), kind)(incomplete))
        return []

    return offered


_recipes, _runs = completing("recipes"), completing("runs")
RECIPE: Any = typer.Argument(metavar="RECIPE", help="The recipe file (YAML).", autocompletion=_recipes)
RESUME: Any = typer.Option(metavar="RUN", help="Continue the run in this folder.", autocompletion=_runs)
RUN: Any = typer.Argument(metavar="RUN", help="A run, or FILE.cbr.", callback=run_folder, autocompletion=_runs)
RecipePath = Annotated[Path, RECIPE]
RunPath = Annotated[Path, RUN]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a setting; may be repeated.")
]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Load a plugin from a .py file; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None, typer.Option(help="Where the networks run; overrides the recipe.")
]


def plugins_of(files: Sequence[Path] = (), *, quiet: bool = False) -> PluginReport:
    """Load the plugins; those that could not be are named on stderr, or with `quiet` in the report alone."""
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=files, strict=False if quiet else None)
    for problem in () if quiet else report.problems():
        say(f"warning: {problem}")
    return report


def checked_recipe(
    path: Path, sets: Sequence[str], plugins: Sequence[Path], *, starts: bool = True
) -> tuple[Recipe, PluginReport]:
    """Load plugins and recipe: what every command on a recipe starts with; `starts` as in `load_recipe`."""
    from cbrcore.recipe import load_recipe

    report = plugins_of(plugins)
    return load_recipe(path, overrides=sets, registry=report.registry, starts=starts), report


def overrides_of(
    sets: Sequence[str] | None = None, *, seed: int | None = None, device: str | None = None
) -> list[str]:
    """All overrides, in the form of --set."""
    options = {"seed": seed, "run.device": device}
    return [*(sets or ()), *(f"{path}={value}" for path, value in options.items() if value is not None)]


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text; control characters in it, other than tabs and ends of lines, are shown as escapes."""
    typer.echo(printable(text, keep="\n\t"), err=err, nl=nl)


def say(message: str, *, nl: bool = True) -> None:
    echo(message, err=True, nl=nl)


def print_json(data: Any, *, indent: int | None = 2) -> None:
    typer.echo(json.dumps(data, indent=indent))  # ASCII: what does things to terminals is escaped


# -- progress ----------------------------------------------------------------------------------------------------


class Reporter(Protocol):
    """Shows progress to a person."""

    def phase(self, title: str, total: int, done: int = 0) -> None: ...
    def advance(self, note: str = "") -> None: ...


@dataclass(frozen=True)
class PhaseProgress:
    """How far a run is in the phase that it is in."""

    title: str = ""
    done: int = 0
    total: int = 0
    note: str = ""

    def __str__(self) -> str:
        return f"{self.title}: {self.done}/{self.total}  {self.note}".rstrip()

    def advanced(self, note: str) -> PhaseProgress:
        return PhaseProgress(self.title, self.done + 1, self.total, note)


class PlainReporter:
    """Progress as occasional lines, for logs and pipes."""

    def __init__(self) -> None:
        self._now = PhaseProgress()
        self._shown = 0.0

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(self, *error: object) -> None:
        self._finish()

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self._finish()
        self._now = PhaseProgress(title, done, total)
        self._show()

    def advance(self, note: str = "") -> None:
        self._now = self._now.advanced(note)
        if time.monotonic() - self._shown >= SECONDS_BETWEEN_LINES:
            self._show()

    def say(self, message: str) -> None:
        say(message)

    def _finish(self) -> None:
        if self._now.title and self._now.done:
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        self.say(str(self._now))


class RichReporter:
    """Progress as a live bar, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        texts = ("{task.description}", "{task.fields[note]}")
        title, note = (TextColumn(text, markup=False) for text in texts)
        columns = (title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), note)
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task: Any = None

    def __enter__(self) -> RichReporter:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self._task = self._progress.add_task(printable(title), total=total, completed=done, note="")

    def advance(self, note: str = "") -> None:
        self._progress.update(self._task, advance=1, note=printable(note))

    def say(self, message: str) -> None:
        self._progress.console.print(printable(message, keep="\n\t"), markup=False, highlight=False)


def reporter() -> PlainReporter | RichReporter:
    """The reporter that fits stderr."""
    return RichReporter() if sys.stderr.isatty() else PlainReporter()


def _is_shown(record: logging.LogRecord) -> bool:
    """What plugins log, and the core's own warnings; its errors are told when it ends."""
    core = record.name.startswith("cbrcore") and record.levelno == logging.WARNING
    return core or record.name.startswith("cbr_")


class PluginLines(logging.Handler):
    """Shows what plugins log while they work ("compiled 3/15"), so that a long step is not a silent one."""

    def __init__(self, shown: PlainReporter | RichReporter) -> None:
        super().__init__(logging.INFO)
        self._shown = shown
        self.addFilter(_is_shown)

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.say(record.getMessage())


class RecordedProgress:
    """A reporter that also keeps the run's progress in a file, for who starts a run and watches it.

    The file is written when a phase begins and ends, and in between once a second. It is there from the first
    phase on, and gone after the ``with`` block. What cannot be written is not: a full disk does not end a run.
    """

    def __init__(self, shown: PlainReporter | RichReporter, path: Path) -> None:
        self._shown = shown
        self._path, self._temporary = path, path.with_name(f".{path.name}.tmp")
        self._now = PhaseProgress()
        self._recorded = 0.0

    def __enter__(self) -> RecordedProgress:
        self._remove()  # what a killed run has left
        return self

    def __exit__(self, *error: object) -> None:
        self._remove()

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self._shown.phase(title, total, done)
        self._now = PhaseProgress(title, done, total)
        self._began = done, time.monotonic()
        self._record()

    def advance(self, note: str = "") -> None:
        self._shown.advance(note)
        self._now = self._now.advanced(note)
        if self._now.done == self._now.total or time.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS:
            self._record()

    def _record(self) -> None:
        self._recorded = time.monotonic()
        now, (began, since) = self._now, self._began
        data = {"phase": now.title, "done": now.done, "total": now.total, "note": now.note}
        data |= {"began": began, "seconds": round(self._recorded - since, 1)}
        with suppress(OSError):
            self._temporary.write_text(json.dumps(data) + "\n", encoding="utf-8")
            self._temporary.replace(self._path)

    def _remove(self) -> None:
        for path in (self._path, self._temporary):
            with suppress(OSError):
                path.unlink(missing_ok=True)


# -- Ctrl-C ------------------------------------------------------------------------------------------------------


@dataclass
class StopRequest:
    """Set by the first SIGINT, SIGTERM or SIGHUP."""

    requested: bool = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def graceful_interrupt() -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP (the terminal was closed; unless it is ignored, as by nohup) into a
    `StopRequest`; a second signal raises KeyboardInterrupt. They reach the main thread alone."""
    stop = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    in_main = threading.current_thread() is threading.main_thread()
    numbers = [signal.SIGINT, signal.SIGTERM] if in_main else []
    if in_main and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
