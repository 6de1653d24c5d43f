"""What a person sees on the terminal: progress and tables. Messages go to stderr, results to stdout."""

from __future__ import annotations

import logging
import re
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

SECONDS_BETWEEN_LINES = 10.0

if TYPE_CHECKING:
    from cbrcore.training.pretrain import PretrainReport


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


@dataclass(frozen=True)
class PhaseProgress:
    """How far a phase is: what a `PlainReporter` writes, read back."""

    title: str
    done: int
    total: int


def last_progress(text: str) -> PhaseProgress | None:
    """The last line of progress in a log; None if there is none."""
    found = re.findall(r"^(\S.*): (\d+)/(\d+)(?:  .*)?$", text, re.MULTILINE)
    return PhaseProgress(found[-1][0], int(found[-1][1]), int(found[-1][2])) if found else None


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
        tables.append(_markdown([header, *_rows(results["name"], evaluation, raw)]))
    return "\n\n".join(tables)


def pretraining_table(report: PretrainReport) -> str:
    """Similarities of pairs before and after pretraining."""
    names = {
        "same": "rewarded, same template",
        "different": "rewarded, different templates",
        "failed": "rewarded and not, same template",
    }
    rows = [
        [label, _number(getattr(report.before, kind), 2), _number(getattr(report.after, kind), 2)]
        for kind, label in names.items()
    ]
    return _markdown([["mean similarity of pairs", "before", "after"], *rows])


def _training_table(training: dict[str, Any], games: dict[str, dict[str, Any]]) -> str:
    """What was scored while training, beside the score that a game starts with."""
    initial = [facts.get("initial_score") for facts in games.values()]
    header = ["training on", "initial", f"last {min(100, training['episodes'])} episodes", "best", "maximum"]
    found = [
        ", ".join(games),
        _number(initial[0] if len(initial) == 1 else None, 0),
        _number(training["avg_score_last_100"], 1),
        _number(training["best_score"], 0),
        _number(next(iter(games.values())).get("max_score") if len(games) == 1 else None, 0),
    ]
    return _markdown([header, found])


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
            ["optimal", *(c for f in evaluation.values() for c in (_number(f["optimal_steps"], 1), "1.00"))]
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
    return f"{_number(value['mean'], digits)} ± {_number(value['std'], digits)}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _markdown(rows: list[list[str]]) -> str:
    """A Markdown table with columns of equal width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])
