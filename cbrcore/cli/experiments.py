"""``cbr run``, ``pretrain``, ``sweep``, ``evaluate`` and ``report``: experiments, and what comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cbrcore.cli.options import (
    Device,
    PluginFiles,
    RecipePath,
    RunPath,
    Sets,
    checked_recipe,
    overrides_of,
    plugins_of,
    say,
)
from cbrcore.errors import CbrError

DEFAULT_LAUNCHER = "cbr_launchers/local"
DEFAULT_COLLECTOR = "{use: cbr_kga2c/kga2c, unit: sentence, hidden: 64}"


def run(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")] = None,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder (default: a new one in runs/)")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the --out folder.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this folder.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Train and evaluate what a recipe describes, and print the table of results."""
    checked, report = checked_recipe(_recipe_path(recipe, resume), overrides_of(set_, seed, device), plugin or ())
    from cbrcore import session

    if resume is None:
        results, folder = session.start(checked, report, out, overwrite=overwrite)
    else:
        results, folder = session.resume(checked, report, resume)
    _print_results(results, folder)


def pretrain(
    recipe: RecipePath,
    *,
    collector: Annotated[
        str,
        typer.Option(
            metavar="AGENT",
            help="Who collects the experience: a plain agent that learns meanwhile, by name or as a section"
            " ('{use: ..., ...}'), or 'random'.",
        ),
    ] = DEFAULT_COLLECTOR,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where it goes (default: a new folder in runs/)")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the --out folder.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Pretrain a recipe's retriever, for any number of runs: `training: {pretrain: {retriever: DIR}}`."""
    sets = overrides_of(set_, seed, device)
    checked, report = checked_recipe(recipe, sets, plugin or ())
    from cbrcore import session
    from cbrcore.console import pretraining_table
    from cbrcore.pretraining import collector_overrides
    from cbrcore.recipe import load_recipe

    agent = None
    if collector != "random":
        overrides = [*sets, *collector_overrides(collector)]
        agent = load_recipe(recipe, overrides=overrides, registry=report.registry)
    found, folder = session.pretrain(checked, agent, report, out, overwrite=overwrite)
    typer.echo(f"{pretraining_table(found)}\n\nretriever: {folder}")
    say(f"use it: --set training.pretrain.retriever={folder}")


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
    sets = overrides_of(set_, seed, None)
    checked, report = checked_recipe(recipe, sets, plugin or ())
    from cbrcore.sweeping import plan, session, work

    session.check_seed(checked, seed)
    prepared = session.prepare(session.Given(recipe, checked, sets, only), out, report.registry)
    if dry_run:
        typer.echo(session.overview(prepared))
        return
    found = session.execute(
        prepared, plan.make_launcher(launcher, report.registry), work.Options(jobs, tuple(plugin or ()))
    )
    typer.echo(f"{found}\nsweep folder: {prepared.folder.path}")


def evaluate(
    folder: RunPath,
    *,
    split: Annotated[
        list[str] | None, typer.Option(help="A split to play; may be repeated (default: all)")
    ] = None,
    device: Device = None,
    plugin: PluginFiles = None,
) -> None:
    """Measure a run's latest checkpoint again, with weights and memory frozen."""
    checked, report = checked_recipe(_recipe_path(None, folder), overrides_of(None, None, device), plugin or ())
    from cbrcore import session

    _print_results(session.evaluate(checked, report, folder, split or ()), folder)


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_SWEEP...", help="Folders of runs, or of sweeps (of many runs).")
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
    decisions: Annotated[
        bool, typer.Option(help="Open a run or two, and let them play, to show single decisions.")
    ] = True,
    plugin: PluginFiles = None,
) -> None:
    """Write a page about runs: tables beside the paper's numbers, statistics over seeds, figures."""
    from cbrcore.report.make import write_report

    written = write_report(folders, plugins_of(plugin or ()), out=out, paper=paper, decisions=decisions)
    for note in written.notes:
        say(f"note: {note}")
    typer.echo(f"{written.runs} runs: {written.page}\nits tables: {written.markdown}, {written.tables}")


def _recipe_path(recipe: Path | None, run_folder: Path | None) -> Path:
    """The recipe to read: the one that was named, or the one that a run's folder holds."""
    from cbrcore.records import stored_recipe

    if run_folder is not None:
        stored = stored_recipe(run_folder)
        return recipe or stored
    if recipe is None:
        raise CbrError(
            "name a RECIPE to run, or a run to continue", hint="cbr run RECIPE, or cbr run --resume DIR"
        )
    return recipe


def _print_results(results: dict[str, Any], folder: Path) -> None:
    from cbrcore.console import results_table

    typer.echo(results_table(results))
    typer.echo(f"\nrun folder: {folder}")
