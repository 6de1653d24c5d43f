"""Tables as text, the same in a terminal, a log and a README."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from cbrcore.console import echo
from cbrcore.errors import printable


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Rows under a header: plain text, or a table on a terminal."""
    if not sys.stdout.isatty():
        echo(aligned(rows))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0], box=None)
    for row in rows[1:]:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Rows as lines, with columns of equal width."""
    return "\n".join("  ".join(row).rstrip() for row in aligned_cells(rows))


def aligned_cells(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """The cells of rows, each on one line, filled up to the width of their column."""
    table = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header as a Markdown table with columns of equal width."""
    first, *others = aligned_cells(rows)
    lines = ["| " + " | ".join(row) + " |" for row in (first, *others)]
    return "\n".join([lines[0], "|" + "|".join("-" * (len(cell) + 2) for cell in first) + "|", *lines[1:]])


def number(value: float | None, digits: int) -> str:
    """A number for a table, "-" for none."""
    return "-" if value is None else f"{value:z.{digits}f}"
