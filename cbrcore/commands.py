"""The core's own commands: run, evaluate, check, show, schema and list-plugins."""

from __future__ import annotations

import inspect
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
    say,
)
from cbrcore.errors import CbrError
from cbrcore.interfaces import HasOverview
from cbrcore.recipe.model import DEFAULTS, PARTS, SECTIONS, settings_class
from cbrcore.recipe.words import COMPUTED, REQUIRED, describe

if TYPE_CHECKING:
    from pydantic import BaseModel

    from cbrcore.config import Part, Recipe
    from cbrcore.plugins import PluginInfo, PluginReport
    from cbrcore.recipe.words import Setting
    from cbrcore.registry import Component, Registry

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
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A component, as in a recipe's 'use', or a section of a recipe.")
    ],
    *,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Show the settings of a component or of a recipe's section: type, default, bounds and meaning."""
    report = plugins_of(plugin or ())
    texts, data = shown(name, report)
    if as_json:
        print_json(data)
    else:
        typer.echo("\n\n".join(texts))


def schema(
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this file.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Write the JSON Schema of a recipe, for editors that complete and check."""
    from cbrcore import recipe

    found = recipe.schema(plugins_of(plugin or ()).registry)
    if out is None:
        print_json(found)
    else:
        out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        say(f"written to {out}")


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


WRITTEN = {kind: f"{kind}: {{use: PLUGIN/NAME}}" for kind in PARTS} | {
    "pretraining": "training: {pretrain: {use: PLUGIN/NAME}}",
    "recorder": "recorders: [{use: PLUGIN/NAME}]",
}
"""Kinds of parts -> how a recipe names one."""


def shown(name: str, report: PluginReport) -> tuple[list[str], Any]:
    """What ``show`` prints of a section, a kind of part or a component, as texts and as data.

    Raises:
        CbrError: there is nothing of this name.
    """
    sections = SECTIONS | {c.name: settings_class(c) for c in report.registry.of_kind("recipe_section")}
    if name in sections:
        return [section_text(name, sections[name])], _settings_data(sections[name])
    components, texts = [], []
    if name in WRITTEN:
        texts = [kind_text(name, report.registry)]
        components = [c for c in report.registry.of_kind(name) if c.qualified == DEFAULTS.get(name)]
    else:
        components = report.registry.named(name)
    texts += [component_text(component, report) for component in components]
    return texts, [component_data(component, report) for component in components]


def section_text(name: str, model: type[BaseModel]) -> str:
    """A section of a recipe with its settings, for people."""
    said = [f"  {line}".rstrip() for line in (inspect.getdoc(model) or "").splitlines()]
    parts = [f"  {part} is a part of its own: cbr show {mark.kind}" for part, mark in nested_parts(model).items()]
    settings = _settings_lines(model) if describe(model) else ()
    return "\n".join([f"{name} (a section of a recipe)", *said, *parts, *settings])


def kind_text(kind: str, registry: Registry) -> str:
    """How a recipe names a part of this kind, and which there are."""
    usual = f"; {DEFAULTS[kind]} if it names none" if kind in DEFAULTS else ""
    rows = [(f"  {component.qualified}", component.summary) for component in registry.of_kind(kind)]
    listed = ["  one of:", aligned(rows)] if rows else ["  none is installed"]
    return "\n".join([f"{kind} (a part of a recipe{usual})", f"  {WRITTEN[kind]}", *listed])


def component_data(component: Component, report: PluginReport) -> dict[str, Any]:
    """What ``show --json`` prints of one component."""
    info = _info_of(component, report)
    return {
        **asdict(component),
        "qualified": component.qualified,
        "distribution": info.distribution,
        "version": info.version,
        "settings": _settings_data(settings_class(component)),
    }


def component_text(component: Component, report: PluginReport) -> str:
    """A component with its settings, for people."""
    info = _info_of(component, report)
    lines = [f"{component.qualified} ({component.kind}, from {info.distribution} {info.version})"]
    lines += [f"  {component.summary}"] if component.summary else []
    lines += [f"  requires: {', '.join(component.requires)}"] if component.requires else []
    lines += [f"  brings the {kind} {use}" for kind, use in component.brings.items()]
    return "\n".join([*lines, *_settings_lines(settings_class(component))])


def _settings_data(model: type[BaseModel]) -> list[dict[str, Any]]:
    return [
        {**asdict(setting), "required": setting.default == REQUIRED, "default": _default(setting)}
        for setting in describe(model)
    ]


def _settings_lines(model: type[BaseModel]) -> Iterator[str]:
    settings = describe(model)
    if not settings:
        yield "  It has no settings."
        return
    rows = [(setting.path, setting.type, _default_text(setting), setting.bounds) for setting in settings]
    table = aligned([("setting", "type", "default", "bounds"), *rows]).splitlines()
    for line, setting in zip(table[1:], settings, strict=True):
        yield from ("", line, f"    {setting.description}".rstrip())


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
