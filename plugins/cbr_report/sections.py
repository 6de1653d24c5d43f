"""The sections that the report has of its own: the answer first, figures next, the protocol last."""

from __future__ import annotations

from cbr_report.charts import can_draw
from cbr_report.figures import curve_figures, gap_figure, interval_figure, reuse_figure
from cbr_report.protocol import protocol_tables
from cbr_report.results import comparison_tables, result_tables
from cbr_report.runs import Runs
from cbrcore import Figure, Section, Table


def results(runs: Runs) -> Section:
    """What the agents reached, each table with its intervals as a figure; then what can be said about it."""
    parts: list[Table | Figure] = []
    for table in result_tables(runs.groups):
        parts.append(table)
        if can_draw() and (figure := interval_figure(table, runs.groups)):
            parts.append(figure)
    return Section("about-results", "Results", [*parts, *comparison_tables(runs.groups)], order=10)


def figures(runs: Runs) -> Section | None:
    """What happened while training, and what was reused."""
    if not can_draw():
        return None
    single = (reuse_figure(runs.groups), gap_figure(runs.groups))
    return Section("about-figures", "Figures", [*curve_figures(runs.groups), *filter(None, single)], order=20)


def protocol(runs: Runs) -> Section:
    """What one must know to judge the numbers."""
    return Section("about-protocol", "Protocol", protocol_tables(runs.groups), order=90)
