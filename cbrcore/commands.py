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
    from cbrcore.plugins import PluginReport

Rows = list[tuple[str, ...]]


def run(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")] = None,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder (default: in runs/)")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the --out folder.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this folder.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Train and evaluate what a recipe describes, and print the table of results."""
    from cbrcore import runs
    from cbrcore.runs.folder import stored_recipe
    from cbrcore.runs.resuming import naming_plugin_files

    overrides, files = overrides_of(set_, seed=seed, device=device), plugin or ()
    if resume:
        stored = stored_recipe(resume)
        with naming_plugin_files(resume, files):
            checked, report = checked_recipe(recipe or stored, overrides, files, starts=False)
        results, folder = runs.resume(checked, report, resume)
    elif recipe:
        results, folder = runs.start(*checked_recipe(recipe, overrides, files), out, overwrite=overwrite)
    else:
        hint = "cbr run RECIPE, or cbr run --resume DIR"
        raise CbrError("name a RECIPE to run, or a run to continue", hint=hint)
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
    from cbrcore.runs.folder import stored_recipe
    from cbrcore.runs.resuming import naming_plugin_files

    with naming_plugin_files(folder, plugin or ()):
        overrides = overrides_of(device=device)
        checked, report = checked_recipe(stored_recipe(folder), overrides, plugin or (), starts=False)
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
        console.print_json(
            [asdict(info) | {"milliseconds": round(info.milliseconds, 1)} for info in report.plugins]
        )
        return
    for rows in [_plugin_rows(report), *([_component_rows(report)] if verbose else [])]:
        tables.print_table(rows)
        if not sys.stdout.isatty():
            console.echo()


def _plugin_rows(report: PluginReport) -> Rows:
    """One row per plugin under a header: what it offers, or why it offers nothing."""
    rows: Rows = [("plugin", "distribution", "version", "ms", "status", "offers")]
    for info in report.plugins:
        offers = info.cause or ", ".join(component.name for component in info.components)
        rows.append((info.name, info.distribution, info.version, f"{info.milliseconds:.0f}", info.status, offers))
    return rows


def _component_rows(report: PluginReport) -> Rows:
    """One row per component under a header."""
    offered = [(c.kind, c.qualified, " ".join(c.requires), c.summary) for c in report.registry]
    return [("kind", "component", "requires", "summary"), *offered]


def check(recipe: RecipePath, *, set_: Sets = None, plugin: PluginFiles = None) -> None:
    """Check a recipe completely, without building anything."""
    checked, _ = checked_recipe(recipe, set_ or (), plugin or ())
    console.echo(recipe_text(checked))


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe, one line per part and section; settings at their defaults are left out."""
    from cbrcore.recipe.model import PARTS, SECTIONS

    parts = [(kind, getattr(recipe, kind)) for kind in PARTS] + [("recorder", each) for each in recipe.recorders]
    sections = {name: getattr(recipe, name) for name in SECTIONS} | dict(recipe.sections)
    rows = [("OK", recipe.name), ("  seed", str(recipe.seed))]
    for kind, part in parts:
        rows += _part_rows(kind, part)
    for name, settings in sections.items():
        rows += _section_rows(name, settings)
    return tables.aligned(rows)


def _part_rows(path: str, part: Part | None) -> Iterator[tuple[str, str]]:
    """The part's row, if there is one, then those of the parts in it."""
    if part is not None:
        yield f"  {path}", f"{part.use}  {_changed(part.settings)}".rstrip()
        yield from _inner_rows(path, part.settings)


def _section_rows(name: str, settings: BaseModel) -> Iterator[tuple[str, str]]:
    """The rows that the section has of its own, or one for all of its settings, then those of the parts in it."""
    from cbrcore.interfaces import HasOverview

    if isinstance(settings, HasOverview):
        yield from ((f"  {what}", value) for what, value in settings.overview())
    else:
        yield f"  {name}", _changed(settings) or "defaults"
        yield from _inner_rows(name, settings)


def _inner_rows(path: str, settings: BaseModel) -> Iterator[tuple[str, str]]:
    from cbrcore.config import nested_parts

    for name in nested_parts(settings):
        yield from _part_rows(f"{path}.{name}", getattr(settings, name))


def _changed(settings: BaseModel) -> str:
    """The settings that are not at their defaults and no parts of their own, as JSON; empty if there are none."""
    from cbrcore.config import nested_parts

    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude=set(nested_parts(settings)))
    return json.dumps(changed) if changed else ""
