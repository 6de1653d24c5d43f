"""What one sees of a run from outside, by its folder alone: whose it is, how far it is, what came of it.

Nothing in it is locked or changed, and whatever is damaged is told, never raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from cbr_find.headline import headline, headline_numbers
from cbr_sweep.finished import lacks
from cbr_sweep.status import TAIL, duration, per, read_progress
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.recipe.text import parse
from cbrcore.runs.folder import (
    LOG_FILE,
    METRICS_FILE,
    PROGRESS_FILE,
    RECIPE_FILE,
    RESULTS_FILE,
    VERSIONS_FILE,
    damaged,
    holds_nothing,
    read_json,
    user_of,
)

RETRIEVER_REPORT = "pretraining.json"
"""What `cbr pretrain` leaves instead of results."""
ERROR = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ ERROR \S+: (.*)$", re.MULTILINE)

Plain = Mapping[str, Any]


class State(StrEnum):
    """What became of a run."""

    RUNNING = "running"
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    EMPTY = "empty"
    """Nothing has begun here."""
    DAMAGED = "damaged"
    OTHER = "no run"
    """Other things lie here."""
    NEW = "new"
    """Planned by a sweep, without a folder yet."""
    SWEEP = "sweep"


@dataclass(frozen=True)
class RunRow:
    """A run as a row of a table.

    Attributes:
        folder: as one types it.
        recipe, agent, seed: as in its recipe; empty and None if that cannot be read.
        detail: more about the state: how far it is and how fast, why it failed, what is damaged.
        when: seconds since the epoch at which its records were last written; None if there are none.
        figures, numbers: what came of it, in words and by name.
    """

    folder: str
    state: State
    recipe: str = ""
    agent: str = ""
    seed: int | None = None
    detail: str = ""
    when: float | None = None
    figures: str = ""
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """State and detail."""
        return f"{self.state}: {self.detail}" if self.detail else str(self.state)

    @property
    def written(self) -> str:
        """When, in local time."""
        return "" if self.when is None else f"{datetime.fromtimestamp(self.when):%Y-%m-%d %H:%M}"


def row_of(folder: Path) -> RunRow:
    """The row of the run in a folder, whatever lies there."""
    row = RunRow(str(folder), State.DAMAGED, when=_when(folder))
    try:
        if not (folder / RECIPE_FILE).is_file():
            state, detail = _without_recipe(folder)
            return replace(row, state=state, detail=detail)
        recipe = _recipe(folder)
        row = replace(row, recipe=str(recipe["name"]), agent=_agent(recipe), seed=int(recipe["seed"]))
        return _judged(row, folder, recipe)
    except CbrError as error:
        return replace(row, detail=_short(folder, error.message))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return replace(row, detail=f"not what a run writes ({type(error).__name__}: {_short(folder, str(error))})")


def _agent(recipe: Plain) -> str:
    name = str(recipe["agent"]["use"]).rpartition("/")[2]
    return f"{name} + cases" if recipe.get("memory") else name


def _judged(row: RunRow, folder: Path, recipe: Plain) -> RunRow:
    """The row with its state; of a run that is done with its figures."""
    state, detail = _state(folder, recipe)
    if state is not State.DONE or not (folder / RESULTS_FILE).is_file():
        return replace(row, state=state, detail=detail)
    results = read_json(folder / RESULTS_FILE)
    return replace(row, state=state, figures=headline(results), numbers=headline_numbers(results))


def _recipe(folder: Path) -> Plain:
    document = parse((folder / RECIPE_FILE).read_text(encoding="utf-8"), RECIPE_FILE)
    document.fail_if_wrong()
    if not isinstance(document.data, dict):
        raise RunFolderError(f"{RECIPE_FILE} holds no recipe")
    return document.data


def _when(folder: Path) -> float | None:
    """The latest of its records' times."""
    times = list[float]()
    for name in (RECIPE_FILE, METRICS_FILE, RESULTS_FILE, LOG_FILE, PROGRESS_FILE, RETRIEVER_REPORT):
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times, default=None)


def _short(folder: Path, said: str) -> str:
    """One line, without the folder that stands in the row anyway."""
    return (said.splitlines() or [""])[0].replace(f"{folder}/", "")


# -- states ------------------------------------------------------------------------------------------------------


def _without_recipe(folder: Path) -> tuple[State, str]:
    """Of a folder without a recipe: a run that has just begun, one that failed before it began, or no run."""
    if user := user_of(folder):
        return State.RUNNING, progress_of(folder) or user
    if not holds_nothing(folder):
        return State.OTHER, ""
    error = _last_error(folder)
    return (State.EMPTY, "") if error is None else (State.FAILED, error)


def _state(folder: Path, recipe: Plain) -> tuple[State, str]:
    if user := user_of(folder):
        return State.RUNNING, progress_of(folder) or user
    if faults := damaged(folder):
        return State.DAMAGED, "; ".join(faults[:2]) + (f" and {len(faults) - 2} more" if len(faults) > 2 else "")
    if (folder / RETRIEVER_REPORT).is_file():
        return State.DONE, "a pretrained retriever"
    if (folder / RESULTS_FILE).is_file():
        run = recipe["run"]
        short = lacks(read_json(folder / RESULTS_FILE), run.get("episodes"), run.get("env_steps"))
        return (State.DONE, "") if short is None else (State.INTERRUPTED, f"after {short}")
    return _unfinished(folder)


def _unfinished(folder: Path) -> tuple[State, str]:
    plays = _lines(folder / METRICS_FILE)
    after = f"after {plays:,} game plays"
    error = _last_error(folder)
    if error is None or error.startswith("interrupted"):
        return State.INTERRUPTED, after
    return State.FAILED, f"{error}, {after}"


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0


def _last_error(folder: Path) -> str | None:
    """What the run's log says last of an error, if that was after its last start; a killed run says nothing.

    The failure of a part is logged with its traceback, whose last line says what it was.
    """
    with suppress(OSError), (folder / LOG_FILE).open("rb") as file:
        file.seek(max(file.seek(0, 2) - TAIL, 0))
        text = file.read().decode(errors="replace")
        for found in (*ERROR.finditer(text),)[-1:]:
            if _since_start(folder, found[1]):
                return _cause(text[found.start() :].splitlines(), found[2])
    return None


def _since_start(folder: Path, clock: str) -> bool:
    """Whether a time of the log (whole seconds) is not before the last start of the run."""
    with suppress(OSError):
        began = (folder / VERSIONS_FILE).stat().st_mtime
        return datetime.fromisoformat(clock).timestamp() >= int(began)
    return True


def _cause(lines: list[str], said: str) -> str:
    traceback = [line for line in lines[1:] if re.match(r"[\w.]+(: |$)", line)]
    return traceback[-1] if said == "the run failed" and traceback else said


# -- progress ----------------------------------------------------------------------------------------------------


def progress_of(folder: Path) -> str:
    """How far a running run is, as in "training (game plays) 37/100, 2.1/s, 30 s left"; "" if it does not tell."""
    found = read_progress(folder / PROGRESS_FILE)
    if found is None:
        return ""
    return ", ".join([f"{found.title} {found.done:,}/{found.total:,}", *_pace(folder / PROGRESS_FILE)])


def _pace(path: Path) -> Iterator[str]:
    """Rate and time left of the phase; older versions do not write what they follow from."""
    with suppress(OSError, ValueError, LookupError, TypeError, ZeroDivisionError):
        told = json.loads(path.read_text(encoding="utf-8"))
        rate = (told["done"] - told["began"]) / told["seconds"]
        left = (told["total"] - told["done"]) / rate
        yield per(rate, "/s")
        yield f"{duration(left)} left"
