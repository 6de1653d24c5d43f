"""What a person sees on the terminal: progress and tables. Messages go to stderr, results to stdout."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Any

SECONDS_BETWEEN_LINES = 10.0


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


def results_table(results: dict[str, Any]) -> str:
    """The run's table: steps and normalized score per split, with the random and the optimal row.

    Plain text that reads the same in a terminal, a log and a README.
    """
    evaluation = results["evaluation"]
    if not evaluation:
        return f"mean score of the last 100 training episodes: {results['training']['avg_score_last_100']}"
    header = ["agent", *(f"{split.upper()} {what}" for split in evaluation for what in ("#steps", "norm. score"))]
    return _markdown([header, *_rows(results["name"], evaluation)])


def _rows(name: str, evaluation: dict[str, Any]) -> list[list[str]]:
    first = next(iter(evaluation.values()))
    modes = [mode for mode in ("sampled", "greedy") if mode in first and mode != first["mode"]]
    rows = [[f"{name} ({first['mode']})", *_cells(list(evaluation.values()))]]
    for mode in modes:
        rows.append([f"{name} ({mode})", *_cells([found[mode] for found in evaluation.values()])])
    rows.append(["uniform random", *_cells([found["random"] for found in evaluation.values()])])
    if any(found["optimal_steps"] is not None for found in evaluation.values()):
        rows.append(
            ["optimal", *(c for f in evaluation.values() for c in (_number(f["optimal_steps"], 1), "1.00"))]
        )
    return rows


def _cells(found: list[dict[str, Any]]) -> list[str]:
    return [text for one in found for text in (_mean_std(one["steps"], 1), _mean_std(one["norm_score"], 2))]


def _mean_std(value: dict[str, float | None], digits: int) -> str:
    return f"{_number(value['mean'], digits)} ± {_number(value['std'], digits)}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _markdown(rows: list[list[str]]) -> str:
    """A Markdown table with columns of equal width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])
