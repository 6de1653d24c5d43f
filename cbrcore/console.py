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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_RECORDS = 1.0

# -- options -----------------------------------------------------------------------------------------------------

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
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
    """Load the plugins; what could not be loaded is named on stderr, or with `quiet` in the report alone."""
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=files, strict=False if quiet else None)
    for problem in () if quiet else report.problems():
        say(f"warning: {problem}")
    return report


def checked_recipe(path: Path, sets: Sequence[str], plugins: Sequence[Path]) -> tuple[Recipe, PluginReport]:
    """Load plugins and recipe: what every command on a recipe starts with."""
    from cbrcore.recipe import load_recipe

    report = plugins_of(plugins)
    return load_recipe(path, overrides=sets, registry=report.registry), report


def overrides_of(sets: Sequence[str] | None, seed: int | None, device: str | None) -> list[str]:
    """All overrides, in the form of --set."""
    options = {"seed": seed, "run.device": device}
    return [*(sets or ()), *(f"{path}={value}" for path, value in options.items() if value is not None)]


def say(message: str) -> None:
    typer.echo(message, err=True)


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


# -- progress ----------------------------------------------------------------------------------------------------


class Reporter(Protocol):
    """Shows progress to a person."""

    def phase(self, title: str, total: int, done: int = 0) -> None: ...
    def advance(self, note: str = "") -> None: ...


class PlainReporter:
    """Progress as occasional lines, for logs and pipes."""

    def __init__(self) -> None:
        self._title = ""
        self._total = 0
        self._done = 0
        self._note = ""
        self._shown = 0.0

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self._finish()
        self._title, self._total, self._done, self._note = title, total, done, ""
        self._shown = time.monotonic()
        self._show()

    def advance(self, note: str = "") -> None:
        self._done += 1
        self._note = note
        if time.monotonic() - self._shown >= SECONDS_BETWEEN_LINES:
            self._show()

    def say(self, message: str) -> None:
        """A line of its own, at once."""
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()

    def _finish(self) -> None:
        if self._title and self._done:
            self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        note = f"  {self._note}" if self._note else ""
        self.say(f"{self._title}: {self._done}/{self._total}{note}")


class RichReporter:
    """Progress as a live bar, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self._task: Any = None

    def __enter__(self) -> RichReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self._task = self._progress.add_task(title, total=total, completed=done, note="")

    def advance(self, note: str = "") -> None:
        self._progress.update(self._task, advance=1, note=note)

    def say(self, message: str) -> None:
        self._progress.console.print(message, markup=False, highlight=False)


class PluginLines(logging.Handler):
    """Shows what plugins log while they work ("compiled 3/15"), so that a long step is not a silent one."""

    def __init__(self, shown: PlainReporter | RichReporter) -> None:
        super().__init__(logging.INFO)
        self._shown = shown
        self.addFilter(lambda record: record.name.startswith("cbr_"))

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.say(record.getMessage())


def reporter() -> PlainReporter | RichReporter:
    """The reporter that fits stderr."""
    return RichReporter() if sys.stderr.isatty() else PlainReporter()


# -- progress as a file: for who starts a run and watches it ------------------------------------------------------


@dataclass(frozen=True)
class PhaseProgress:
    """How far a run is in the phase that it is in."""

    title: str
    done: int
    total: int
    note: str = ""


class RecordedProgress:
    """A reporter that also keeps the run's progress in a file, as `read_progress` reads it.

    The file is written when a phase begins and ends, and in between once a second. It is there from the first
    phase on, and gone after the ``with`` block. What cannot be written is not: a full disk does not end a run.
    """

    def __init__(self, shown: PlainReporter | RichReporter, path: Path) -> None:
        self._shown = shown
        self._path = path
        self._title, self._total, self._done, self._note = "", 0, 0, ""
        self._recorded = 0.0

    def __enter__(self) -> RecordedProgress:
        self._remove()  # what a killed run has left
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def phase(self, title: str, total: int, done: int = 0) -> None:
        self._shown.phase(title, total, done)
        self._title, self._total, self._done, self._note = title, total, done, ""
        self._record()

    def advance(self, note: str = "") -> None:
        self._shown.advance(note)
        self._done += 1
        self._note = note
        if self._done == self._total or time.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS:
            self._record()

    def say(self, message: str) -> None:
        """A line of its own, at once."""
        self._shown.say(message)

    def _record(self) -> None:
        self._recorded = time.monotonic()
        found = {"phase": self._title, "done": self._done, "total": self._total, "note": self._note}
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        with suppress(OSError):
            temporary.write_text(json.dumps(found) + "\n", encoding="utf-8")
            temporary.replace(self._path)

    def _remove(self) -> None:
        for path in (self._path, self._path.with_name(f".{self._path.name}.tmp")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def read_progress(path: Path) -> PhaseProgress | None:
    """What a `RecordedProgress` has written; None if there is nothing, or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return PhaseProgress(str(found["phase"]), int(found["done"]), int(found["total"]), str(found["note"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


# -- Ctrl-C ------------------------------------------------------------------------------------------------------


class StopRequest:
    """Set by the first SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def graceful_interrupt() -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a `StopRequest`; a second signal raises KeyboardInterrupt. They reach the main
    thread alone."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- tables ------------------------------------------------------------------------------------------------------


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Rows under a header: plain text, or a table on a terminal."""
    if not sys.stdout.isatty():
        typer.echo(aligned(rows))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0], box=None)
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    Console().print(table)


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Rows as lines, with columns of equal width."""
    return "\n".join("  ".join(row).rstrip() for row in aligned_cells(rows))


def aligned_cells(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """The cells of rows, filled up to the width of their column."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header as a Markdown table with columns of equal width."""
    first, *others = aligned_cells(rows)
    lines = ["| " + " | ".join(row) + " |" for row in (first, *others)]
    return "\n".join([lines[0], "|" + "|".join("-" * (len(cell) + 2) for cell in first) + "|", *lines[1:]])


def results_table(results: dict[str, Any]) -> str:
    """The run's tables, as plain text that reads the same in a terminal, a log and a README.

    Per split steps and normalized score, with the random and the optimal row. For games that are scored by raw
    points (they tell an `initial_score`): the training's own scores too, and points instead of shares.
    """
    evaluation, games = results["evaluation"], results["protocol"]["games"]
    raw = {split: any("initial_score" in facts for facts in games[split].values()) for split in games}
    tables = []
    if raw.get("train") or not evaluation:
        tables.append(_training_table(results["training"], games["train"]))
    if evaluation:
        names = {split: "score" if raw[split] else "norm. score" for split in evaluation}
        header = [
            "agent",
            *(f"{split.upper()} {what}" for split, name in names.items() for what in ("#steps", name)),
        ]
        tables.append(markdown([header, *_rows(results["name"], evaluation, raw)]))
    return "\n\n".join(tables)


def _training_table(training: dict[str, Any], games: dict[str, dict[str, Any]]) -> str:
    """What was scored while training, beside the score that a game starts with."""
    initial = [facts.get("initial_score") for facts in games.values()]
    header = ["training on", "initial", f"last {min(100, training['episodes'])} episodes", "best", "maximum"]
    found = [
        ", ".join(games),
        number(initial[0] if len(initial) == 1 else None, 0),
        number(training["avg_score_last_100"], 1),
        number(training["best_score"], 0),
        number(next(iter(games.values())).get("max_score") if len(games) == 1 else None, 0),
    ]
    return markdown([header, found])


def _rows(name: str, evaluation: dict[str, Any], raw: dict[str, bool]) -> list[list[str]]:
    first = next(iter(evaluation.values()))
    modes = [mode for mode in ("sampled", "greedy") if mode in first and mode != first["mode"]]
    shown = [(f"{name} ({first['mode']})", evaluation)]
    for mode in modes:
        shown.append((f"{name} ({mode})", {split: found[mode] for split, found in evaluation.items()}))
    shown.append(("uniform random", {split: found["random"] for split, found in evaluation.items()}))
    rows = [[label, *_cells(found, raw)] for label, found in shown]
    if any(found["optimal_steps"] is not None for found in evaluation.values()):
        rows.append(
            ["optimal", *(c for f in evaluation.values() for c in (number(f["optimal_steps"], 1), "1.00"))]
        )
    return rows


def _cells(found: dict[str, Any], raw: dict[str, bool]) -> list[str]:
    return [
        text
        for split, one in found.items()
        for text in (
            _mean_std(one["steps"], 1),
            _mean_std(one["score"], 1) if raw[split] else _mean_std(one["norm_score"], 2),
        )
    ]


def _mean_std(value: dict[str, float | None], digits: int) -> str:
    return f"{number(value['mean'], digits)} ± {number(value['std'], digits)}"


def number(value: float | None, digits: int) -> str:
    """A number for a table, "-" for none."""
    return "-" if value is None else f"{value:.{digits}f}"
