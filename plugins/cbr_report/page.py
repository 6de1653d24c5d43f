"""Pages that need nothing else: style, scripts and data are in them; nothing is fetched.

`render` is for other plugins too: a template of theirs extends ``base.html.j2`` and fills its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_report.texts import shown
from cbr_report.theme import PALETTES
from cbrcore import Table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser is told to fetch nothing."""
REFERENCES = re.compile(r"(uniform random|optimal)( \(.*\))?", re.DOTALL)
"""Agents that no run of ours trained; what is told apart stands in brackets behind."""
NUMBER = re.compile(r"\[?\s*([-+]?\d+(?:\.\d+)?)")


def render(template: Path | str, **context: Any) -> str:
    """A page from a template: the path of a file, or the name of one of this package.

    A file may extend and import this package's templates (``{% extends "base.html.j2" %}``,
    ``{% import "tables.html.j2" as tables with context %}``). Every text in the context is escaped, and what is no
    text replaced (`shown`).
    """
    path = Path(template)
    folder = path.parent if path.is_absolute() else TEMPLATES
    return shown(_environment(folder).get_template(path.name).render(**context))


@cache
def _environment(folder: Path) -> Environment:
    """Templates of the folder, then those of this package."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        policy=POLICY, variables=_variables, best_of=best_cells, key_column=key_column, is_reference=is_reference,
        lead="", footer="",
    )  # fmt: skip
    return made


def _variables(scheme: str) -> Markup:
    """The colours of a scheme as CSS variables."""
    from markupsafe import Markup

    return Markup(" ".join(f"--{name}: {value};" for name, value in PALETTES[scheme].items()))


def is_reference(row: Sequence[str]) -> bool:
    """Whether the row is of the uniform random or the optimal agent."""
    return any(REFERENCES.fullmatch(cell) for cell in row[:2])


def key_column(table: Table) -> int:
    """The column that stays while the others scroll: who it is about, else the first one."""
    return next((at for at, column in enumerate(table.columns) if column.kind == "text"), 0)


def best_cells(table: Table) -> set[tuple[int, int]]:
    """(row, column) of the best numbers, ties among them, in columns of a kind with "lower" or "higher".

    They are the best among rows that agree in all columns of a kind with "group" (the games, the budget).
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    apart = [at for at, column in enumerate(table.columns) if "group" in column.kind.split()]
    for line, row in enumerate(table.rows):
        if not is_reference(row):
            groups.setdefault(tuple(row[at] for at in apart), []).append(line)
    best = set()
    for at, column in enumerate(table.columns):
        better = {"lower": min, "higher": max}.get(column.kind.split()[-1])
        for lines in groups.values() if better else ():
            found = {line: float(number[1]) for line in lines if (number := NUMBER.match(table.rows[line][at]))}
            if len(found) > 1 and better:
                top = better(found.values())
                best |= {(line, at) for line, value in found.items() if value == top}
    return best
