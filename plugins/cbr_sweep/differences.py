"""In what two recipes differ, setting by setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cbrcore.config import Recipe
from cbrcore.recipe import dump_recipe
from cbrcore.yamltext import parse


def differences(before: Recipe, now: Recipe) -> list[str]:
    """One text per setting that differs; of another component only its `use` line."""
    old, new = _flat(before), _flat(now)
    paths = [path for path in {**old, **new} if old.get(path, _ABSENT) != new.get(path, _ABSENT)]
    other = {path.removesuffix(".use") for path in paths if path.endswith(".use")}
    shown = [
        path for path in paths if path.endswith(".use") or not any(path.startswith(f"{part}.") for part in other)
    ]
    return [f"{path} is {_said(old, path)} there, {_said(new, path)} now" for path in shown]


def _flat(recipe: Recipe) -> dict[str, Any]:
    """dotted path -> value, of all that a recipe says but where it lies."""
    return dict(_leaves("", parse(dump_recipe(recipe)).data | {"directory": None}))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), inner)
    else:
        yield path, value


_ABSENT = object()


def _said(settings: Mapping[str, Any], path: str) -> str:
    return repr(settings[path]) if path in settings else "not set"
