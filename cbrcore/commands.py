"""The core's own commands: run, evaluate, check and list-plugins."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbrcore import console, tables
from cbrcore.console import AsJson, Device, PluginFiles, RecipePath, RunPath, Sets, checked_recipe, overrides_of
from cbrcore.errors import CbrError, PluginError

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport


def run(
    recipe: Annotated[Path | None, console.RECIPE] = None,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder (default: in runs/)")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the --out folder.")] = False,
    resume: Annotated[Path | None, console.RESUME] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.cbr", help="Start with what this run has learned.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Train and evaluate what a recipe describes, and print the table of results."""
    from cbrcore import runs
    from cbrcore.recipe.model import SHARING
    from cbrcore.runs.resuming import recipe_of

    overrides, files = overrides_of(set_, seed=seed, device=device), plugin or ()
    if resume and (out or overwrite):
        raise CbrError("--resume goes on in the folder of its run", hint="leave out --out and --overwrite")
    if resume and not from_:
        checked, report = recipe_of(resume, overrides, files, recipe)
        results, folder = runs.resume(checked, report, resume)
    elif (recipe or from_) and not resume:
        recipe, begun = SHARING.load_factory().beginning(from_, recipe) if from_ else (recipe, [])
        checked, report = checked_recipe(recipe, [*begun, *overrides], files)
        for key in checked.sections:
            console.say(f"note: this is one run; what {recipe} says under '{key}:' is not carried out")
        results, folder = runs.start(checked, report, out, overwrite=overwrite)
    else:
        hint = "cbr run RECIPE, or cbr run --from FILE.cbr, or cbr run --resume DIR"
        raise CbrError("name a RECIPE to run, or a run to start from, or one to continue", hint=hint)
    _print_results(results, folder)
    _say_next(folder, checked, report)


def evaluate(
    folder: RunPath,
    *,
    split: Annotated[list[str] | None, typer.Option(help="Play this split; repeatable (default: all)")] = None,
    device: Device = None,
    plugin: PluginFiles = None,
) -> None:
    """Measure a run's latest checkpoint again, with weights and memory frozen."""
    from cbrcore import runs
    from cbrcore.runs.resuming import recipe_of

    checked, report = recipe_of(folder, overrides_of(device=device), plugin or ())
    _print_results(runs.evaluate(checked, report, folder, split or ()), folder)


def _print_results(results: dict[str, Any], folder: Path) -> None:
    from cbrcore.recipe.model import RESULTS

    try:
        table = RESULTS.load_factory().results_table(results)
    except PluginError as missing:
        table = f"(no table: {missing.message})"
    console.echo(f"{table}\n\nrun folder: {folder}")


def _say_next(folder: Path, recipe: Recipe, report: PluginReport) -> None:
    from cbrcore.recipe.model import OFFERS

    with suppress(PluginError):
        for words in OFFERS.load_factory().next_steps(folder, recipe, report):
            console.say(f"next: {words}")


def list_plugins(
    *,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Describe every component.")] = False,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """List the plugins: what they offer, where they come from, and what is wrong with them."""
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=plugin or ())
    if as_json:
        told = [asdict(info) | {"milliseconds": round(info.milliseconds, 1)} for info in report.plugins]
        return console.print_json(told)
    plugins: list[tuple[str, ...]] = [("plugin", "distribution", "version", "ms", "status", "offers")]
    for info in report.plugins:
        offers = info.cause or ", ".join(component.name for component in info.components)
        plugins += [(info.name, info.distribution, info.version, f"{info.milliseconds:.0f}", info.status, offers)]
    components: list[tuple[str, ...]] = [("kind", "component", "requires", "summary")]
    components += [(c.kind, c.qualified, " ".join(c.requires), c.summary) for c in report.registry]
    for rows in [plugins, components] if verbose else [plugins]:
        tables.print_table(rows)
        if not sys.stdout.isatty():
            console.echo()


def check(recipe: RecipePath, *, set_: Sets = None, plugin: PluginFiles = None) -> None:
    """Check a recipe completely, without building anything."""
    from cbrcore.recipe.model import OVERVIEW

    checked, _ = checked_recipe(recipe, set_ or (), plugin or ())
    try:
        console.echo(OVERVIEW.load_factory().recipe_text(checked))
    except PluginError as missing:
        console.echo(f"OK  {checked.name} (no overview: {missing.message})")
