"""``cbr compare``: how runs differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cbr_find.comparing import Compared, compare_runs
from cbrcore.console import AsJson, completing, echo, print_json, say
from cbrcore.tables import number, print_table

Row = tuple[str, ...]
DIGITS = {"norm. score": 2, "share of": 2, "#steps": 1, "score": 1, "second": 1}
"""What a figure's name holds -> digits behind the point; others are whole numbers."""


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="The folders of two runs or more.", autocompletion=completing("runs")
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Put runs side by side: the settings in which their recipes differ, and all figures."""
    found = compare_runs(runs)
    if as_json:
        print_json(as_data(found))
        return
    names = short_names(found.folders)
    for position, table in enumerate(tables(found, names)):
        if position and not sys.stdout.isatty():
            echo()
        print_table(table)
    if not found.settings:
        say("their recipes are the same")
    for note in found.notes:
        say(f"note: {note}")


def tables(found: Compared, names: Sequence[str]) -> Iterator[list[Row]]:
    """Of the settings that differ, and of each group of figures; with two runs, what the second has more."""
    if found.settings:
        rows = [(path, *_values(found, path)) for path in found.settings]
        yield [("setting", *names), *rows]
    head = ("difference",) if len(names) == 2 else ()
    for group, figures in found.figures.items():
        if figures:
            rows = [(name, *_figures(name, values)) for name, values in figures.items()]
            yield [(group, *names, *head), *rows]


def short_names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names where these differ, else the paths as they were given."""
    names = [folder.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else list(map(str, folders))


def _values(found: Compared, path: str) -> Iterator[str]:
    for position, value in enumerate(found.settings[path]):
        yield "not set" if (path, position) in found.unset else _written(value)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _figures(name: str, values: Sequence[float | None]) -> Iterator[str]:
    digits = next((count for words, count in DIGITS.items() if words in name), 0)
    yield from (number(value, digits) for value in values)
    if len(values) == 2:
        one, other = values
        yield "" if one is None or other is None else f"{other - one:+z.{digits}f}"


def as_data(found: Compared) -> dict[str, Any]:
    """For programs: each list is in the order of `runs`; `unset` has (path, position) of what a recipe does not
    set at all."""
    return {
        "runs": [str(folder) for folder in found.folders],
        "settings": found.settings,
        "unset": [list(each) for each in sorted(found.unset)],
        "figures": found.figures,
        "notes": found.notes,
    }
