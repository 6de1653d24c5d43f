"""What ``cbr show`` tells of a section of a recipe, of a kind of part, or of a component: as text and as data."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cbrcore.config import nested_parts
from cbrcore.errors import CbrError
from cbrcore.recipe.model import DEFAULTS, PARTS, SECTIONS, settings_class
from cbrcore.recipe.words import LIMITS, Schema, bounds, json_schema, settings_of
from cbrcore.registry import Component, Registry
from cbrcore.tables import aligned

if TYPE_CHECKING:
    from cbrcore.plugins import PluginInfo, PluginReport

METRIC = re.compile(r"^(\w+): (.+(?:\n +.+)*)", re.MULTILINE)
REQUIRED = "required"
COMPUTED = "computed"
WRITTEN = {kind: f"{kind}: {{use: PLUGIN/NAME}}" for kind in PARTS} | {
    "pretraining": "training: {pretrain: {use: PLUGIN/NAME}}",
    "recorder": "recorders: [{use: PLUGIN/NAME}]",
    "pair_feature": "context_encoder: {pair_feature: {use: PLUGIN/NAME}}",
}
"""Kinds of parts -> how a recipe names one."""


def shown(name: str, report: PluginReport) -> tuple[list[str], Any]:
    """What is told of a section, a kind of part or a component, as texts and as data.

    Raises:
        CbrError: there is nothing of this name.
    """
    sections = SECTIONS | {c.name: settings_class(c) for c in report.registry.of_kind("recipe_section")}
    if name in sections:
        return [section_text(name, sections[name])], _settings_data(sections[name])
    texts = []
    if name in WRITTEN:
        texts.append(kind_text(name, report.registry))
        components = [c for c in report.registry.of_kind(name) if c.qualified == DEFAULTS.get(name)]
    else:
        components = named(name, report.registry)
    texts += [component_text(component, report) for component in components]
    return texts, [component_data(component, report) for component in components]


def named(name: str, registry: Registry) -> list[Component]:
    """All components of this name (qualified, or bare), of every kind.

    Raises:
        CbrError: there is none; says what was probably meant.
    """
    found = [component for component in registry if name in (component.qualified, component.name)]
    if found:
        return found
    offered = [component.qualified for component in registry if component.plugin == name]
    if offered:
        raise CbrError(f"{name!r} is a plugin. Choose one of: {', '.join(offered)}.")
    raise CbrError(f"unknown component {name!r}. {registry.why_unknown(name, list(registry))}")


# -- as text -----------------------------------------------------------------------------------------------------


def section_text(name: str, model: type[BaseModel]) -> str:
    """A section of a recipe with its settings."""
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


def component_text(component: Component, report: PluginReport) -> str:
    """A component with its settings."""
    info = _info_of(component, report)
    lines = [f"{component.qualified} ({component.kind}, from {info.distribution} {info.version})"]
    lines += [f"  {component.summary}"] if component.summary else []
    lines += [f"  requires: {', '.join(component.requires)}"] if component.requires else []
    lines += [f"  brings the {kind} {use}" for kind, use in component.brings.items()]
    return "\n".join([*lines, *_settings_lines(settings_class(component)), *_metrics_lines(component)])


def _metrics_lines(component: Component) -> Iterator[str]:
    meanings = metrics_of(component)
    if meanings:
        yield from ("", "metrics, after each play, in metrics.jsonl and as curves in the report:")
        yield from (f"  {name}\n    {meaning}" for name, meaning in meanings.items())


def _settings_lines(model: type[BaseModel]) -> Iterator[str]:
    settings = describe(model)
    if not settings:
        yield "  It has no settings."
        return
    rows = [(setting.path, setting.type, _default_text(setting), setting.bounds) for setting in settings]
    table = aligned([("setting", "type", "default", "bounds"), *rows]).splitlines()
    for line, setting in zip(table[1:], settings, strict=True):
        yield from ("", line, f"    {setting.description}".rstrip())


def _default_text(setting: Setting) -> str:
    return setting.default if setting.default in (REQUIRED, COMPUTED) else f"default {setting.default}"


# -- as data -----------------------------------------------------------------------------------------------------


def component_data(component: Component, report: PluginReport) -> dict[str, Any]:
    """A component with its settings and where it comes from."""
    info = _info_of(component, report)
    return {
        **asdict(component),
        "qualified": component.qualified,
        "distribution": info.distribution,
        "version": info.version,
        "settings": _settings_data(settings_class(component)),
        "metrics": metrics_of(component),
    }


def _settings_data(model: type[BaseModel]) -> list[dict[str, Any]]:
    return [
        {**asdict(setting), "required": setting.default == REQUIRED, "default": _default(setting)}
        for setting in describe(model)
    ]


def _default(setting: Setting) -> Any:
    return None if setting.default in (REQUIRED, COMPUTED) else json.loads(setting.default)


def _info_of(component: Component, report: PluginReport) -> PluginInfo:
    return next(info for info in report.plugins if component in info.components)


# -- metrics -----------------------------------------------------------------------------------------------------


def metrics_of(component: Component) -> dict[str, str]:
    """The figures that a part reports, name -> what it is: the lines ``name: what it is`` in the docstring of its
    `metrics`. Its module is read, not imported: it may need torch."""
    module, _, name = component.factory.partition(":")
    found = importlib.util.find_spec(module)
    if found is None or not found.has_location or found.origin is None or not found.origin.endswith(".py"):
        return {}
    classes = (n for n in ast.parse(Path(found.origin).read_text("utf-8")).body if isinstance(n, ast.ClassDef))
    methods = [each for made in classes if made.name == name for each in made.body]
    for method in methods:
        if isinstance(method, ast.FunctionDef) and method.name == "metrics":
            said = ast.get_docstring(method) or ""
            return {name: " ".join(text.split()) for name, text in METRIC.findall(said)}
    return {}


# -- settings in words -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """One setting of a component, in words; `default` is JSON, or `REQUIRED`, or `COMPUTED`."""

    path: str
    type: str
    default: str
    bounds: str
    description: str


def describe(model: type[BaseModel]) -> list[Setting]:
    """Every setting of `model`; nested ones by dotted path.

    Raises:
        PluginError: a field's type has no JSON form, so that no recipe could hold it.
    """
    definitions = json_schema(model).get("$defs", {})
    return [
        Setting(
            path,
            _type(field, definitions),
            json.dumps(field["default"]) if "default" in field else REQUIRED if required else COMPUTED,
            bounds(field, _ALL_LIMITS),
            " ".join(field.get("description", "").split()),
        )
        for path, field, required in settings_of(model)
    ]


_ALL_LIMITS = LIMITS | {
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "pattern": "of the form {}",
}
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


def _type(field: Schema, definitions: Schema) -> str:
    if "$ref" in field:
        return _type(definitions[field["$ref"].rpartition("/")[2]], definitions)
    if "enum" in field or "const" in field:
        return " | ".join(str(choice) for choice in field.get("enum", [field.get("const")]))
    if "part" in field:
        return f"part ({field['part']})"
    if "anyOf" in field:
        return " or ".join(_type(branch, definitions) for branch in field["anyOf"])
    kind = field.get("type")
    if kind == "array":
        return f"list of {_type(field['items'], definitions)}" if isinstance(field.get("items"), dict) else "list"
    if kind == "object":
        return "section"
    if kind == "string":
        return "path" if field.get("format") == "path" else "text"
    return _TYPES.get(str(kind), "anything")
