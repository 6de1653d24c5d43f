"""The sections that plugins offer: made one by one, so that one that fails is named and the rest is written."""

from __future__ import annotations

import contextlib
import re
import sys
from dataclasses import dataclass, replace
from typing import Any

from cbr_report.charts import INSTALL
from cbr_report.runs import Runs
from cbrcore import Component, Figure, Section, Table

ID = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
"""What an id may be: it is a file's name and a place on the page."""


@dataclass(frozen=True)
class Offered:
    """A section's factory, and who offers it in words."""

    component: Component
    factory: Any
    says: str


def offered_sections(runs: Runs) -> list[Offered]:
    """All that are offered and can be imported; the others are noted."""
    found = []
    for component in runs.plugins.registry.of_kind("report_section"):
        says = f"the section {component.name!r} of the {runs.plugins.origin(component)}"
        try:
            found.append(Offered(component, component.load_factory(), says))
        except (Exception, SystemExit) as error:
            runs.notes.append(_note(says, error))
    return found


def make_section(offered: Offered, runs: Runs, taken: set[str]) -> Section | None:
    """The section, or a note that says why there is none.

    Args:
        taken: the ids on the page so far; those of the section are added.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for results, whatever a plugin prints
            made = offered.factory(runs)
            if made is None:
                return None
            section = _checked(made)
    except (Exception, SystemExit) as error:  # whatever a plugin does: it must not cost the page
        runs.notes.append(_note(offered.says, error))
        return None
    ids = [section.id, *(part.id for part in section.parts)]
    twice = [id_ for number, id_ in enumerate(ids) if id_ in taken or id_ in ids[:number]]
    if twice:
        runs.notes.append(f"left out: {offered.says}: the id {twice[0]!r} is on the page already")
        return None
    taken.update(ids)
    return section


def _note(says: str, error: BaseException) -> str:
    missing = error.name if isinstance(error, ImportError) else None
    mend = f"; {INSTALL}" if missing in ("altair", "vl_convert") else ""
    message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    return f"left out: {says}: {' '.join(str(message).split())[:500]}{mend}"


def _checked(made: Any) -> Section:
    """The section, if it is one.

    Raises:
        TypeError: it is not.
        ValueError: an id cannot be one, or a row has another length than the columns.
    """
    if not isinstance(made, Section):
        raise TypeError(f"its factory gave {type(made).__name__}, not a cbrcore.Section")
    parts = tuple(made.parts)
    for part in parts:
        if not isinstance(part, Table | Figure):
            raise TypeError(f"a part is {type(part).__name__}, neither a cbrcore.Table nor a cbrcore.Figure")
    for id_ in (made.id, *(part.id for part in parts)):
        if not ID.fullmatch(id_):
            raise ValueError(f"the id {id_!r} must be letters, digits, '_' and '-'")
    for part in parts:
        if isinstance(part, Table) and any(len(row) != len(part.columns) for row in part.rows):
            raise ValueError(f"table {part.id!r}: every row needs {len(part.columns)} cells")
    return replace(made, parts=[_as_text(part) if isinstance(part, Table) else part for part in parts])


def _as_text(table: Table) -> Table:
    return replace(table, rows=tuple(tuple(map(str, row)) for row in table.rows))
