"""The sections of the report that ship, through the suite of their kind: with no run, one run, two runs."""

from __future__ import annotations

from collections.abc import Sequence

from cbr_entity.section import objects
from cbr_paper.ceilings import of_jericho
from cbr_paper.section import beside_the_paper
from cbr_report.runs import Group, Run, Runs
from cbr_report.sections import figures, protocol, results
from cbr_watch.section import decisions
from cbrcore import ReportedRun, Section
from cbrcore.plugins import load_plugins
from cbrcore.testing import ReportSectionSuite


def named(runs: Sequence[ReportedRun]) -> Runs:
    """The runs as `cbr report` gives them to its sections."""
    made = tuple(Run(run.path, run.recipe, run.results, agent=run.agent, place=run.place) for run in runs)
    return Runs([Group(made, "Text + CBR", "sample games")] if made else [], load_plugins())


class TestResults(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return results(named(runs))


class TestFigures(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return figures(named(runs))


class TestProtocol(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return protocol(named(runs))


class TestPaper(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return beside_the_paper(named(runs))


class TestJericho(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return of_jericho(named(runs))


class TestObjects(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return objects(named(runs))


class TestDecisions(ReportSectionSuite):
    def make(self, runs: Sequence[ReportedRun]) -> Section | None:
        return decisions(named(runs))
