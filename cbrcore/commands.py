"""The core's own commands: run, evaluate, check and list-plugins."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbrcore import console, tables
from cbrcore.console import AsJson, Device, PluginFiles, RecipePath, RunPath, Sets, checked_recipe, overrides_of
from cbrcore.errors import CbrError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from cbrcore.config import Part, Recipe


def run(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")] = None,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder (default: in runs/)")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the --out folder.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this folder.")] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.cbr", help="Start with what this run has learned.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Train and evaluate what a recipe describes, and print the table of results."""
    from cbrcore import runs
    from cbrcore.runs.resuming import recipe_of

    overrides, files = overrides_of(set_, seed=seed, device=device), plugin or ()
    if resume and not from_:
        results, folder = runs.resume(*recipe_of(resume, overrides, files, recipe), resume)
    elif (recipe or from_) and not resume:
        recipe, begun = console.sharing().beginning(from_, recipe) if from_ else (recipe, [])
        overrides = [*begun, *overrides]
        results, folder = runs.start(*checked_recipe(recipe, overrides, files), out, overwrite=overwrite)
    else:
        hint = "cbr run RECIPE, or cbr run --from FILE.cbr, or cbr run --resume DIR"
        raise CbrError("name a RECIPE to run, or a run to start from, or one to continue", hint=hint)
    _print_results(results, folder)


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
    console.echo(f"{tables.results_table(results)}\n\nrun folder: {folder}")


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
    checked, _ = checked_recipe(recipe, set_ or (), plugin or ())
    console.echo(recipe_text(checked))


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe, one line per part and section; settings at their defaults are left out."""
    from cbrcore.recipe.model import PARTS, SECTIONS

    own = [*((kind, getattr(recipe, kind)) for kind in PARTS), *(("recorder", each) for each in recipe.recorders)]
    own += [*((name, getattr(recipe, name)) for name in SECTIONS), *recipe.sections.items()]
    rows = [row for name, what in own for row in _rows(name, what)]
    return tables.aligned([("OK", recipe.name), ("  seed", str(recipe.seed)), *rows])


def _rows(path: str, what: Part | BaseModel | None) -> Iterator[tuple[str, str]]:
    """The row of a part or a section, or those that it has of its own, then those of the parts in it."""
    from cbrcore.config import Part, nested_parts
    from cbrcore.interfaces import HasOverview

    settings = what.settings if isinstance(what, Part) else what
    if isinstance(settings, HasOverview):
        yield from ((f"  {name}", value) for name, value in settings.overview())
    elif settings is not None:
        changed = _changed(settings)
        yield f"  {path}", f"{what.use}  {changed}".rstrip() if isinstance(what, Part) else changed or "defaults"
        for name in nested_parts(settings):
            yield from _rows(f"{path}.{name}", getattr(settings, name))


def _changed(settings: BaseModel) -> str:
    """The settings that are not at their defaults and no parts of their own, as JSON; empty if there are none."""
    from cbrcore.config import nested_parts

    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude=set(nested_parts(settings)))
    return json.dumps(changed) if changed else ""
