"""The JSON Schema of a recipe, for editors that complete and check it while it is written."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cbrcore.config import Recipe
from cbrcore.recipe.model import DEFAULTS, settings_class
from cbrcore.recipe.words import json_schema
from cbrcore.registry import Component, Registry


def schema_of(registry: Registry) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a recipe with every installed part and section, for editors.

    What belongs together (a case memory and its encoder, `episodes` or `env_steps`) only reading a recipe tells.
    """
    schemas = _Schemas(registry)
    recipe = schemas.settings(Recipe, "recipe")
    for section in registry.of_kind("recipe_section"):
        recipe["properties"][section.name] = schemas.settings(settings_class(section), section.name)
    written = {
        key: found for key, found in recipe["properties"].items() if key not in ("schema_version", "sections")
    }
    required = ("environment", "agent", "run")
    optional = {key: {"anyOf": [found, {"type": "null"}]} for key, found in written.items() if key not in required}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cbr recipe",
        **recipe,
        "properties": {"schema": {"const": 1}, **written, **optional},
        "required": ["schema", *required],
        "$defs": schemas.definitions,
    }


class _Schemas:
    """Schemas of settings whose parts are resolved; `definitions` holds those of each kind of part."""

    def __init__(self, registry: Registry) -> None:
        self.definitions: dict[str, Any] = {}
        self._registry = registry

    def settings(self, model: type[BaseModel], name: str) -> dict[str, Any]:
        found = json_schema(model)
        for inner, definition in found.pop("$defs", {}).items():
            self.definitions[f"{name}.{inner}"] = self._adapted(definition, name)
        adapted: dict[str, Any] = self._adapted(found, name)
        return adapted

    def _adapted(self, node: Any, name: str) -> Any:
        """A node of pydantic's schema as a recipe is written: parts resolved, and text may look like a number."""
        if isinstance(node, list):
            return [self._adapted(inner, name) for inner in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("part"), str):
            part = self._part(node["part"])
            return {"anyOf": [part, {"type": "null"}]} if node.get("default", part) is None else part
        node = {key: self._adapted(inner, name) for key, inner in node.items() if key != "title"}
        if "$ref" in node:
            node["$ref"] = node["$ref"].replace("#/$defs/", f"#/$defs/{name}.")
        if node.get("type") == "string" and not {"enum", "const"} & set(node):
            node["type"] = ["string", "number", "boolean"]
        return node

    def _part(self, kind: str) -> dict[str, Any]:
        if kind not in self.definitions:
            self.definitions[kind] = {}  # a part may hold parts of its own kind
            found = [self._component(component) for component in self._registry.of_kind(kind)]
            names = [name for branch in found for name in branch["properties"]["use"]["enum"]]
            self.definitions[kind] = {"anyOf": [*found, *([{"enum": names}] if kind == "recorder" else [])]}
        return {"$ref": f"#/$defs/{kind}"}

    def _component(self, component: Component) -> dict[str, Any]:
        found = self.settings(settings_class(component), f"{component.plugin}.{component.name}")
        unique = component.name not in self._registry.clashes(component.kind)
        use = {
            "enum": [component.qualified, *([component.name] if unique else [])],
            "description": component.summary,
        }
        required = ["use"] if DEFAULTS.get(component.kind) != component.qualified else []
        return found | {
            "properties": {"use": use, **found.get("properties", {})},
            "required": [*required, *found.get("required", ())],
        }
