"""The paper's numbers as data, from `recipes/tables/paper.yaml` (whose head documents the format).

A table of the paper is a grid of cells. A cell names the runs of the recipe's sweep that it is about, in the
sweep's own words (axis -> choice), so that a program can put our number beside the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cbr_paper.paper_file import (
    NUMBER,
    NUMBERS,
    CellKeys,
    Entry,
    Metric,
    PaperFile,
    heading,
    keys_of,
    read_paper_file,
)

OF_CELL = ("metric", "split", "cited")
"""What a cell may be about besides the choices of a sweep."""


@dataclass(frozen=True)
class PaperValue:
    """A number as printed.

    Attributes:
        std: None if the paper prints none.
    """

    text: str
    mean: float
    std: float | None = None


@dataclass(frozen=True)
class PaperCell:
    """One place in a table.

    Attributes:
        choices: axis of the recipe's sweep -> the choice as text, of the runs that the number is the mean of.
        split: "in" or "out"; None if the number is not of a split.
        cited: whose number it is, where the paper took it from elsewhere; no runs of ours belong to it.
        value: None where the paper prints a dash.
    """

    choices: Mapping[str, str]
    metric: Metric
    split: str | None
    cited: str | None
    value: PaperValue | None


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, or a figure (which has no cells: its numbers are not printed).

    Attributes:
        where: as in "App. E, Table 8".
        recipe: file name of the recipe whose sweep makes our numbers; None if no run does.
        says: what the paper says about it in words; "" if nothing.
        rows: what tells the rows apart: an axis of the sweep, "split", "metric" or "cited" -> word.
        columns: the same for the columns.
        cells: row by row.
        labels: word -> as the paper prints it.
    """

    id: str
    title: str
    where: str
    recipe: str | None
    says: str
    rows: tuple[CellKeys, ...]
    columns: tuple[CellKeys, ...]
    cells: tuple[tuple[PaperCell, ...], ...]
    labels: Mapping[str, str]

    def label(self, word: str) -> str:
        """A choice as the paper prints it: "bike_cbr" is "BiKE + CBR"."""
        return self.labels.get(word, word)


def load_paper(path: Path | str) -> list[PaperTable]:
    """The tables and figures of a file of the paper's numbers, in its order.

    Raises:
        CbrError: it cannot be read, or everything that is wrong with it.
    """
    paper = read_paper_file(Path(path))
    return [_table(entry, paper) for entry in paper.tables]


def _table(entry: Entry, paper: PaperFile) -> PaperTable:
    return PaperTable(
        id=entry.id,
        title=entry.title,
        where=entry.where,
        recipe=entry.recipe,
        says=entry.says,
        rows=tuple(heading(row) for row in entry.rows),
        columns=entry.columns,
        cells=tuple(_cells(entry, row, paper) for row in entry.rows),
        labels=paper.labels,
    )


def _cells(entry: Entry, row: Mapping[str, str | tuple[str, ...]], paper: PaperFile) -> tuple[PaperCell, ...]:
    return tuple(
        _cell(keys_of(entry, row, column), number, paper)
        for column, number in zip(entry.columns, row[NUMBERS], strict=True)
    )


def _cell(keys: CellKeys, number: str, paper: PaperFile) -> PaperCell:
    choices = {axis: word for axis, word in keys.items() if axis not in OF_CELL}
    return PaperCell(choices, paper.metrics[keys["metric"]], keys.get("split"), keys.get("cited"), _value(number))


def _value(text: str) -> PaperValue | None:
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    mean, std = found.groups()
    return PaperValue(text, float(mean), None if std is None else float(std))
