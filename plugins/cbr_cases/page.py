"""A run's cases as one page that needs nothing else: a table to sort and to search, each situation below it.

What it looks like is in ``templates/``; it extends the page of `cbr_report`, so that both have one style.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cbr_cases.listing import CaseRow, Listed, shown, situation_lines
from cbr_report.page import render
from cbrcore import CbrError
from cbrcore.runs.folder import write_atomically

TEMPLATE = Path(__file__).resolve().parent / "templates" / "cases.html.j2"
COLUMNS = {
    "id": "case",
    "command": "command",
    "template": "template",
    "game": "game",
    "episode": "episode",
    "step": "step",
    "reward": "reward",
    "rewarded": "rewarded",
    "reused": "reused",
    "success": "success",
    "age": "age",
}
"""Field of a row -> the column's title."""
TEXTS = ("command", "template", "game")
"""Columns that hold texts; the others hold numbers."""
EXPLAINED = (
    "game, episode, step and reward: of the step that was retained first. rewarded: how often it was retained with"
    " a reward. reused: how often it was reused while training; success: the share of these that earned a reward."
    " age: environment steps since it was last retained. Click a title to sort, a number to see the situation of"
    " the case."
)


def write_page(name: str, listed: Listed, rows: Sequence[CaseRow], to: Path) -> None:
    """Write the page about these rows of a run's cases.

    Raises:
        CbrError: `to` is a folder.
    """
    if to.is_dir():
        raise CbrError(f"{to} is a folder", hint=f"name a file: {to / 'cases.html'}")
    made_of = {
        case.id: (situation, case.seeds)
        for case, situation in zip(listed.stored.cases, listed.stored.situations, strict=True)
    }
    to.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(to, page(name, rows, [situation_lines(*made_of[row.id]) for row in rows]))


def page(name: str, rows: Sequence[CaseRow], situations: Sequence[Sequence[str]]) -> str:
    """The page about cases [m] with their situations [m]."""
    return render(
        TEMPLATE,
        title=f"{name}: {len(rows)} cases",
        lead=EXPLAINED,
        columns=COLUMNS,
        texts=TEXTS,
        cases=[(row, "\n".join(lines)) for row, lines in zip(rows, situations, strict=True)],
        shown=shown,
    )
