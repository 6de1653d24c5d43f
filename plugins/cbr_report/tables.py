"""Tables of text: what the page shows, and what is written beside it as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from cbr_report.page import best_cells
from cbr_report.statistics import FOR_MIDDLE, Summary
from cbr_report.texts import one_line, shown
from cbrcore import Column, Table
from cbrcore.tables import markdown

NUMBERS = re.compile(r"[-+]?\d+(\.\d+)?( ± \d+(\.\d+)?)?( \(\d+( of \d+ games)?\))?( \[[A-Z\d, ]+\])?")
"""What a cell with one number may be; "-1 / -2" is a formula to a spreadsheet."""
NOTHING = "–"
"""Where there is no number, or too few runs for it."""


def as_csv(table: Table) -> str:
    """RFC 4180, a header first. A text that a spreadsheet would take for a formula has an apostrophe before."""
    file = io.StringIO()
    rows = [[column.title for column in table.columns], *table.rows]
    csv.writer(file, lineterminator="\n").writerows([[_no_formula(shown(text)) for text in row] for row in rows])
    return file.getvalue()


def _no_formula(text: str) -> str:
    text = re.sub("\r\n?", "\n", text)  # csv quotes no carriage return
    return (
        f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not NUMBERS.fullmatch(text) else text
    )


def as_markdown(table: Table) -> str:
    """A section with the table in columns of equal width; the best numbers are bold."""
    best = best_cells(table)
    rows = [[_cell(column.title) for column in table.columns]]
    for line, row in enumerate(table.rows):
        rows.append([f"**{_cell(text)}**" if (line, at) in best else _cell(text) for at, text in enumerate(row)])
    after = [table.note, *(f"* {one_line(remark)}" for remark in table.remarks)]
    lines = [f"## {one_line(table.title)}", "", markdown(rows), "", *(shown(line) for line in after if line)]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")


def number(value: float | None, digits: int) -> str:
    """-0.00 is 0.00."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def mean_std(summary: Summary | None, digits: int) -> str:
    """As the paper prints it: "15.72 ± 1.15"; the mean alone for a single run."""
    if summary is None:
        return NOTHING
    mean = number(summary.mean, digits)
    return mean if summary.std is None else f"{mean} ± {number(summary.std, digits)}"


def middle(summary: Summary | None, digits: int) -> str:
    """The interquartile mean; nothing where it would leave no run out."""
    return NOTHING if summary is None or summary.runs < FOR_MIDDLE else number(summary.iqm, digits)


def interval(summary: Summary | None, digits: int) -> str:
    """ "[14.90, 16.20]"; nothing for fewer than three runs."""
    if summary is None or summary.low is None:
        return NOTHING
    return f"[{number(summary.low, digits)}, {number(summary.high, digits)}]"


def text_columns(*titles: str, kind: str = "text") -> tuple[Column, ...]:
    return tuple(Column(title, kind) for title in titles)


def columns(titles: Sequence[str], kind: str = "number") -> tuple[Column, ...]:
    return tuple(Column(title, kind) for title in titles)
