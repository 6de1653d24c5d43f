"""The sections that the report has of its own: the answer first, figures next, the protocol last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cbr_report.charts import can_draw
from cbr_report.comparable import remarks
from cbr_report.comparisons import comparison_tables
from cbr_report.figures import curve_figures, gap_figure, interval_figure, reuse_figure
from cbr_report.protocol import protocol_tables
from cbr_report.results import result_tables
from cbr_report.runs import Runs
from cbrcore import Figure, Section, Table


def results(runs: Runs) -> Section:
    """What the agents reached, each table with its intervals as a figure; then what can be said about it."""
    parts: list[Table | Figure] = []
    for table in result_tables(runs.groups):
        parts.append(table)
        if can_draw() and (figure := interval_figure(table, runs.groups)):
            parts.append(figure)
    return Section("about-results", "Results", _warned([*parts, *comparison_tables(runs.groups)], runs), order=10)


def figures(runs: Runs) -> Section | None:
    """What happened while training, and what was reused."""
    if not can_draw():
        return None
    single = (reuse_figure(runs.groups), gap_figure(runs.groups))
    made = [*curve_figures(runs.groups), *filter(None, single)]
    return Section("about-figures", "Figures", _warned(made, runs), order=20)


def _warned(parts: Sequence[Table | Figure], runs: Runs) -> list[Table | Figure]:
    """The same; figures say that not all agents compare, where the tables' remarks say why."""
    if not remarks(runs.groups):
        return list(parts)
    words = " Not all agents compare: see the remarks below the tables."
    return [replace(part, caption=part.caption + words) if isinstance(part, Figure) else part for part in parts]


def protocol(runs: Runs) -> Section:
    """What one must know to judge the numbers."""
    return Section("about-protocol", "Protocol", protocol_tables(runs.groups), order=90)
