"""The report: a page about runs, its tables and figures. Other plugins add sections to it."""

from cbrcore import Registrar, hookimpl


@hookimpl
def register_commands(registry: Registrar) -> None:
    registry.add(
        "report",
        factory="cbr_report.command:report",
        summary="Write a page about runs: tables, intervals over seeds, curves, single decisions.",
    )


@hookimpl
def register_report_sections(registry: Registrar) -> None:
    registry.add("results", factory="cbr_report.sections:results", summary="Our numbers, with intervals")
    registry.add("figures", factory="cbr_report.sections:figures", summary="Curves over training, reuse, the gap")
    registry.add("protocol", factory="cbr_report.sections:protocol", summary="Handicaps, protocol, versions")
