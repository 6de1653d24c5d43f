"""The core's own commands: run, evaluate, check, show, schema and list-plugins."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbrcore.config import nested_parts
from cbrcore.console import (
    AsJson,
    Device,
    PluginFiles,
    RecipePath,
    RunPath,
    Sets,
    aligned,
    checked_recipe,
    overrides_of,
    plugins_of,
    print_json,
    print_table,
    results_table,
)
from cbrcore.errors import CbrError
from cbrcore.interfaces import HasOverview
from cbrcore.recipe.model import PARTS, SECTIONS, settings_class
from cbrcore.recipe.words import COMPUTED, REQUIRED, describe

if TYPE_CHECKING:
    from pydantic import BaseModel

    from cbrcore.config import Part, Recipe
    from cbrcore.plugins import PluginInfo, PluginReport
    from cbrcore.recipe.words import Setting
    from cbrcore.registry import Component

Rows = list[tuple[str, ...]]


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
    from cbrcore import runs

    if resume is None:
        results, folder = runs.start(checked, report, out, overwrite=overwrite)
    else:
        results, folder = runs.resume(checked, report, resume)
    _print_results(results, folder)


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
    from cbrcore import runs

    _print_results(runs.evaluate(checked, report, folder, split or ()), folder)


def _recipe_path(recipe: Path | None, run_folder: Path | None) -> Path:
    """The recipe to read: the one that was named, or the one that a run's folder holds."""
    from cbrcore.runs.folder import stored_recipe

    if run_folder is not None:
        stored = stored_recipe(run_folder)
        return recipe or stored
    if recipe is None:
        raise CbrError(
            "name a RECIPE to run, or a run to continue", hint="cbr run RECIPE, or cbr run --resume DIR"
        )
    return recipe


def _print_results(results: dict[str, Any], folder: Path) -> None:
    typer.echo(results_table(results))
    typer.echo(f"\nrun folder: {folder}")


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
        print_json(plugins_data(report))
        return
    tables = [plugin_rows(report), *([component_rows(report)] if verbose else [])]
    for rows in tables:
        print_table(rows)
        if not sys.stdout.isatty():
            typer.echo()


def show(
    name: Annotated[str, typer.Argument(metavar="PLUGIN/NAME", help="A component, as in a recipe's 'use'.")],
    *,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Show a component's settings: type, default, bounds and meaning."""
    report = plugins_of(plugin or ())
    components = report.registry.named(name)
    if as_json:
        print_json([component_data(component, report) for component in components])
    else:
        typer.echo("\n\n".join(component_text(component, report) for component in components))


def check(recipe: RecipePath, *, set_: Sets = None, plugin: PluginFiles = None) -> None:
    """Check a recipe completely, without building anything."""
    checked, _ = checked_recipe(recipe, set_ or (), plugin or ())
    typer.echo(recipe_text(checked))


# -- as text and as data -----------------------------------------------------------------------------------------


def plugins_data(report: PluginReport) -> list[dict[str, Any]]:
    """What ``list-plugins --json`` prints."""
    return [asdict(info) | {"milliseconds": round(info.milliseconds, 1)} for info in report.plugins]


def plugin_rows(report: PluginReport) -> Rows:
    """One row per plugin under a header: what it offers, or why it offers nothing."""
    rows: Rows = [("plugin", "distribution", "version", "ms", "status", "offers")]
    for info in report.plugins:
        offers = info.cause or ", ".join(component.name for component in info.components)
        rows.append((info.name, info.distribution, info.version, f"{info.milliseconds:.0f}", info.status, offers))
    return rows


def component_rows(report: PluginReport) -> Rows:
    """One row per component under a header."""
    offered = [(c.kind, c.qualified, " ".join(c.requires), c.summary) for c in report.registry]
    return [("kind", "component", "requires", "summary"), *offered]


def component_data(component: Component, report: PluginReport) -> dict[str, Any]:
    """What ``show --json`` prints of one component."""
    info = _info_of(component, report)
    settings = [
        {**asdict(setting), "required": setting.default == REQUIRED, "default": _default(setting)}
        for setting in describe(settings_class(component))
    ]
    return {
        **asdict(component),
        "qualified": component.qualified,
        "distribution": info.distribution,
        "version": info.version,
        "settings": settings,
    }


def component_text(component: Component, report: PluginReport) -> str:
    """A component with its settings, for people."""
    info = _info_of(component, report)
    lines = [f"{component.qualified} ({component.kind}, from {info.distribution} {info.version})"]
    lines += [f"  {component.summary}"] if component.summary else []
    lines += [f"  requires: {', '.join(component.requires)}"] if component.requires else []
    settings = describe(settings_class(component))
    rows = [(setting.path, setting.type, _default_text(setting), setting.bounds) for setting in settings]
    table = aligned([("setting", "type", "default", "bounds"), *rows]).splitlines()
    for line, setting in zip(table[1:], settings, strict=True):
        lines += ["", line, f"    {setting.description}".rstrip()]
    return "\n".join(lines if settings else [*lines, "  It has no settings."])


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe, one line per part and section; settings at their defaults are left out."""
    rows = [("OK", recipe.name), ("  seed", str(recipe.seed))]
    for kind in PARTS:
        part = getattr(recipe, kind)
        rows += _part_rows(kind, part) if part is not None else []
    rows += [row for recorder in recipe.recorders for row in _part_rows("recorder", recorder)]
    for name, settings in ({key: getattr(recipe, key) for key in SECTIONS} | dict(recipe.sections)).items():
        rows += _section_rows(name, settings)
    return aligned(rows)


def _section_rows(name: str, settings: BaseModel) -> Iterator[tuple[str, str]]:
    """The rows that the section has of its own, or one for all of its settings, then those of the parts in it."""
    if isinstance(settings, HasOverview):
        yield from ((f"  {what}", value) for what, value in settings.overview())
        return
    yield f"  {name}", _changed(settings) or "defaults"
    yield from _rows_of_parts(name, settings)


def _part_rows(path: str, part: Part) -> Iterator[tuple[str, str]]:
    """The part's row, then those of the parts in it."""
    yield f"  {path}", f"{part.use}  {_changed(part.settings)}".rstrip()
    yield from _rows_of_parts(path, part.settings)


def _rows_of_parts(path: str, settings: BaseModel) -> Iterator[tuple[str, str]]:
    for name in nested_parts(settings):
        inner = getattr(settings, name)
        if inner is not None:
            yield from _part_rows(f"{path}.{name}", inner)


def _changed(settings: BaseModel) -> str:
    """The settings that are not at their defaults and no parts of their own, as JSON; empty if there are none."""
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude=set(nested_parts(settings)))
    return json.dumps(changed) if changed else ""


def _info_of(component: Component, report: PluginReport) -> PluginInfo:
    return next(info for info in report.plugins if component in info.components)


def _default(setting: Setting) -> Any:
    return None if setting.default in (REQUIRED, COMPUTED) else json.loads(setting.default)


def _default_text(setting: Setting) -> str:
    return setting.default if setting.default in (REQUIRED, COMPUTED) else f"default {setting.default}"
