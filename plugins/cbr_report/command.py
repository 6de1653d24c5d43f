"""``cbr report``: a page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbrcore.console import PluginFiles, completing, echo, plugins_of, say


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_OR_SWEEP...",
            help="Folders of runs, or of sweeps (of many runs).",
            autocompletion=completing("runs"),
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="The page (default: report.html, in the folder if there is one)"),
    ] = None,
    paper: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The paper's numbers (default: recipes/tables/paper.yaml, if here)"),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every figure as SVG and PDF into this folder, too.")
    ] = None,
    decisions: Annotated[
        bool, typer.Option(help="Open a run or two, and let them play, to show single decisions.")
    ] = True,
    plugin: PluginFiles = None,
) -> None:
    """Write a page about runs: tables beside the paper's numbers, statistics over seeds, figures."""
    from cbr_report.write import write_report

    written = write_report(
        folders, plugins_of(plugin or ()), out=out, paper=paper, decisions=decisions, figures=figures
    )
    for note in written.notes:
        say(f"note: {note}")
    echo(f"{written.runs} runs: {written.page}\nits tables: {written.markdown}, {written.tables}")
    if written.figures is not None:
        echo(f"its figures: {written.figures}")
