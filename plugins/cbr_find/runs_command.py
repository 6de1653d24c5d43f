"""``cbr runs``: which runs there are, how far they are, what came of them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cbr_find.run_rows import RunRow, State, row_of
from cbr_sweep.folder import JOBS, SWEEP_FILE
from cbrcore.console import AsJson, completing, print_json, say
from cbrcore.errors import CbrError
from cbrcore.runs.folder import RECIPE_FILE, read_json
from cbrcore.tables import print_table

RUNS = Path("runs")
HEAD = ("run", "recipe", "agent", "seed", "state", "when", "figures")
ORDER = (State.DONE, State.RUNNING, State.INTERRUPTED, State.FAILED, State.DAMAGED, State.NEW)
"""Of counts; other states are counted after these."""


def runs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Holds runs; a sweep's folder shows each of its runs.",
            autocompletion=completing("runs"),
        ),
    ] = RUNS,
    *,
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder: recipe, agent, seed, state, when they were last written, figures."""
    rows = rows_in(folder)
    if as_json:
        print_json([as_data(row) for row in rows])
        return
    print_table([HEAD, *map(cells, rows)])
    for line in hints(rows):
        say(line)


def rows_in(folder: Path) -> list[RunRow]:
    """The runs in a folder, those written last below; of a sweep's folder all its runs, of a run's the run.

    Raises:
        CbrError: it is no folder, or nothing is in it.
    """
    if not folder.is_dir():
        said = "is a file, not a folder" if folder.exists() else "there is no such folder"
        raise CbrError(f"{folder}: {said}", hint="name a folder that holds runs, or make one: cbr run RECIPE")
    if (folder / RECIPE_FILE).is_file():
        return [row_of(folder)]
    if (folder / SWEEP_FILE).is_file():
        return sweep_rows(folder)
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise CbrError(f"{folder} holds no runs", hint="make one: cbr run RECIPE; which there are: cbr recipes")
    found = [sweep_row(path) if (path / SWEEP_FILE).is_file() else row_of(path) for path in inside]
    return sorted(found, key=lambda row: row.when or 0.0)


# -- sweeps ------------------------------------------------------------------------------------------------------


def sweep_rows(folder: Path) -> list[RunRow]:
    """Each run of a sweep in the order of sweep.json, those without a folder too; without the sweep's file (it is
    damaged) those that have one."""
    planned = _planned(folder)
    there = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name != JOBS)
    names = list(dict.fromkeys([*planned, *(name for name in there if not name.startswith("."))]))
    return [
        row_of(folder / name) if (folder / name).is_dir() else RunRow(str(folder / name), State.NEW)
        for name in names
    ]


def sweep_row(folder: Path) -> RunRow:
    """A sweep as one row, with its runs counted."""
    inside = sweep_rows(folder)
    times = [row.when for row in inside if row.when is not None]
    name, fault = "", " (its sweep.json is damaged)"
    with suppress(CbrError, LookupError, TypeError):
        name, fault = str(read_json(folder / SWEEP_FILE)["name"]), ""
    return RunRow(str(folder), State.SWEEP, name, detail=counts(inside) + fault, when=max(times, default=None))


def _planned(folder: Path) -> list[str]:
    with suppress(CbrError, LookupError, TypeError):
        return [str(run["id"]) for run in read_json(folder / SWEEP_FILE)["runs"]]
    return []


def counts(rows: Sequence[RunRow]) -> str:
    """As in "12 of 15 done, 1 running, 2 new"."""
    found = Counter(row.state for row in rows)
    others = [state for state in (*ORDER, *State) if found[state] and state is not State.DONE]
    return ", ".join(
        [f"{found[State.DONE]} of {len(rows)} done", *(f"{found[s]} {s}" for s in dict.fromkeys(others))]
    )


# -- as text and as data -----------------------------------------------------------------------------------------


def cells(row: RunRow) -> tuple[str, ...]:
    seed = "" if row.seed is None else str(row.seed)
    return row.folder, row.recipe, row.agent, seed, row.shown, row.written, row.figures


def as_data(row: RunRow) -> dict[str, Any]:
    """A run for programs; `when` is a time with its zone."""
    when = None if row.when is None else datetime.fromtimestamp(row.when).astimezone().isoformat("T", "seconds")
    return asdict(replace(row, when=None)) | {"state": str(row.state), "when": when}


def hints(rows: Sequence[RunRow]) -> Iterator[str]:
    """What to type about what is not done."""
    for state, words in {
        State.INTERRUPTED: "go on: cbr run --resume {}",
        State.FAILED: "why: {}/run.log, and go on: cbr run --resume {}",
        State.SWEEP: "its runs: cbr runs {}",
    }.items():
        for row in [row for row in rows if row.state is state][:1]:
            yield words.replace("{}", shlex.quote(row.folder))
