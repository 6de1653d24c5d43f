"""``cbr sweep``: all runs of a recipe's sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbr_sweep.notes import notes
from cbr_sweep.plan import SweepRequest, make_launcher, make_plan
from cbr_sweep.status import RunStatus
from cbr_sweep.view import overview
from cbr_sweep.work import Options, execute
from cbrcore.console import PluginFiles, RecipePath, Sets, checked_recipe, echo, overrides_of, say

DEFAULT_LAUNCHER = "cbr_launchers/local"


def sweep(
    recipe: RecipePath,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The seed of all runs; overrides the recipe.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The sweep's folder (default: runs/<name of the recipe>)")
    ] = None,
    launcher: Annotated[
        str,
        typer.Option(
            metavar="LAUNCHER",
            help="Where the runs execute: a launcher's name, or a section ('{use: cbr_launchers/ray, ...}').",
        ),
    ] = DEFAULT_LAUNCHER,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="So many runs at the same time (default: as there is room for)")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only runs whose id fits, as in '*seed=0'.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs; do nothing.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Execute all runs of a recipe's sweep. Repeat it at will: what is done is skipped, the rest continues."""
    sets = overrides_of(set_, seed=seed)
    checked, report = checked_recipe(recipe, sets, plugin or (), starts=not dry_run)
    plan = make_plan(SweepRequest(recipe, checked, sets, only, seed), out, report.registry)
    if dry_run:
        runs = [RunStatus.of(item, plan.folder) for item in plan.planned]
        echo(overview(runs))
        for line in notes(runs):
            say(line)
        return
    found = execute(plan, make_launcher(launcher, report.registry), Options(jobs, tuple(plugin or ())))
    echo(f"{found}\nsweep folder: {plan.folder.path}")
