"""The section "Beside the paper": each table of the paper that we have a number for, and the same as a figure."""

from __future__ import annotations

from cbr_paper.belong import Paper, find_paper_file, read_paper
from cbr_paper.compared import our_summary, paper_tables
from cbr_paper.paper import PaperTable
from cbr_report.charts import Row, Style, can_draw, described, distinct, ranges
from cbr_report.runs import Runs
from cbr_report.tables import number
from cbrcore import CbrError, Figure, Section, Table

KEPT = "cbr_paper"
"""Where the runs keep the paper's tables, which are read once."""
LEAD = "The numbers of the paper (Atzeni et al., ICLR 2022), and ours."


class BesideThePaper:
    """The section's factory; agents and places are called as in the paper (`cbr_report.names.BringsWords`)."""

    def vocabulary(self, runs: Runs) -> Paper:
        """The paper's words. A file that was named must be right; one that was found may be in the way.

        Raises:
            CbrError: the file of the paper's numbers was named and is wrong.
        """
        runs.kept[KEPT] = found = self._read(runs)
        return found

    def _read(self, runs: Runs) -> Paper:
        named = runs.options.paper
        if named is not None:
            return read_paper(named, runs.groups, runs.plugins)
        near = find_paper_file(runs.options.folders)
        if near is None:
            return Paper()
        try:
            return read_paper(near, runs.groups, runs.plugins)
        except CbrError as error:
            runs.notes.append(f"no numbers of the paper: {error.message}")
            return Paper()

    def paper(self, runs: Runs) -> Paper:
        """The paper's tables, read once."""
        found: Paper = runs.kept[KEPT] if KEPT in runs.kept else self.vocabulary(runs)
        return found

    def __call__(self, runs: Runs) -> Section | None:
        paper = self.paper(runs)
        parts: list[Table | Figure] = []
        for shown, table in zip(paper.shown(), paper_tables(paper), strict=True):
            parts.append(table)
            if can_draw() and (figure := versus(shown, paper)) is not None:
                parts.append(figure)
        return Section("about-paper", "Beside the paper", parts, lead=LEAD, order=15) if parts else None


beside_the_paper = BesideThePaper()

STYLES = {"paper": Style(6, dashed=True), "ours": Style(0)}


def versus(table: PaperTable, paper: Paper) -> Figure | None:
    """The paper's means and ours on one axis, a panel per column; None if there is no pair."""
    rows: list[Row] = []
    told = []
    names = distinct([_name(table, row) for row in range(len(table.rows))])
    titles = distinct([_title(table, column) for column in range(len(table.columns))])
    for column in range(len(table.columns)):
        for row, cells in enumerate(table.cells):
            cell = cells[column]
            claim = paper.claim(table, cell)
            found = our_summary(cell, claim.group) if claim else None
            if found is not None and cell.value is not None:
                panel, name = titles[_title(table, column)], names[_name(table, row)]
                rows += [
                    _row(panel, name, "paper", cell.value.mean, cell.value.std),
                    _row(panel, name, "ours", found.mean, found.std),
                ]
                told.append(f"{panel}, {name}: paper {cell.value.text}, ours {number(found.mean, 2)}")
    if not rows:
        return None
    return Figure(
        f"versus_{table.id}",
        f"{table.where}: the paper's numbers and ours",
        described(ranges(rows, STYLES, columns=3, width=230), f"{table.title}. {'; '.join(told)}.", STYLES),
        "Ticks are means; bars are standard deviations over runs. A ring: no deviation is known.",
    )


def _name(table: PaperTable, row: int) -> str:
    return ", ".join(table.label(word) for word in table.rows[row].values()) or table.title


def _title(table: PaperTable, column: int) -> str:
    """ "Easy #Steps, lower is better"."""
    metric = table.cells[0][column].metric
    words = [table.label(word) for key, word in table.columns[column].items() if key != "metric"]
    return f"{' '.join([*words, metric.title])}, {metric.better} is better"


def _row(panel: str, name: str, series: str, mean: float, std: float | None) -> Row:
    low, high = (None, None) if std is None else (mean - std, mean + std)
    return {"panel": panel, "name": name, "series": series, "value": mean, "low": low, "high": high}
