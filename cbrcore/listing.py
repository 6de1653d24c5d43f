"""Plugins, components and recipes as text, as a table for terminals, and as data for ``--json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cbrcore.checker import PARTS, SECTIONS, settings_class
from cbrcore.config import Part, Recipe, Settings, nested_parts
from cbrcore.explain import COMPUTED, REQUIRED, Setting, describe
from cbrcore.plugins import PluginInfo, PluginReport
from cbrcore.registry import Component
from cbrcore.sweep import expand

if TYPE_CHECKING:
    from rich.table import Table

Rows = list[tuple[str, ...]]


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


def rich_table(rows: Rows) -> Table:
    """Rows under a header as a table for terminals."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0], box=None)
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    return table


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
    parts = {kind: part for kind in PARTS if (part := getattr(recipe, kind)) is not None}
    sections = {section: found for section in SECTIONS if (found := getattr(recipe, section)) is not None}
    rows = [("OK", recipe.name), ("  seed", str(recipe.seed))]
    rows += [row for kind, part in parts.items() for row in _part_rows(kind, part)]
    rows += [(f"  {section}", _changed(settings) or "defaults") for section, settings in sections.items()]
    rows += [(f"  sweep {axis}", json.dumps(values)) for axis, values in (recipe.sweep or {}).items()]
    rows += [("  runs", str(len(expand(recipe))))] if recipe.sweep else []
    return aligned(rows)


def _part_rows(path: str, part: Part) -> Iterator[tuple[str, str]]:
    """The part's row, then those of the parts in it."""
    yield f"  {path}", f"{part.use}  {_changed(part.settings)}".rstrip()
    for name in nested_parts(part.settings):
        inner = getattr(part.settings, name)
        if inner is not None:
            yield from _part_rows(f"{path}.{name}", inner)


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Rows as lines, with columns of equal width."""
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    return "\n".join(line.rstrip() for line in lines)


def _changed(settings: Settings) -> str:
    """The settings that are not at their defaults and no parts of their own, as JSON; empty if there are none."""
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude=set(nested_parts(settings)))
    return json.dumps(changed) if changed else ""


def _info_of(component: Component, report: PluginReport) -> PluginInfo:
    return next(info for info in report.plugins if component in info.components)


def _default(setting: Setting) -> Any:
    return None if setting.default in (REQUIRED, COMPUTED) else json.loads(setting.default)


def _default_text(setting: Setting) -> str:
    return setting.default if setting.default in (REQUIRED, COMPUTED) else f"default {setting.default}"
