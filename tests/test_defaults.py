"""Defaults are part of every result that names no value: none changes without somebody having said so here."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

ROOT = Path(__file__).parents[1]
KNOWN: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "defaults.yaml").read_text(encoding="utf-8")
)
PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/config.py"))


def defaults(module: str) -> dict[str, dict[str, Any]]:
    """Of the settings classes of a module: name -> default. A setting that is required has none."""
    found = vars(importlib.import_module(module))
    kinds = (
        kind
        for kind in found.values()
        if inspect.isclass(kind) and issubclass(kind, BaseModel) and kind.__module__ == module
    )
    return {f"{module}.{kind.__name__}": plain for kind in kinds if (plain := _plain(kind))}


def _plain(kind: type[BaseModel]) -> dict[str, Any]:
    fields = {name: field.default for name, field in kind.model_fields.items()}
    stated = {
        name: value
        for name, value in fields.items()
        if not kind.model_fields[name].is_required() and kind.model_fields[name].default_factory is None
    }
    return dict(to_jsonable_python(stated))


@pytest.mark.parametrize("module", ["cbrcore.config", *(f"{name}.config" for name in PLUGINS)])
def test_defaults_are_those_that_are_written_down(module):
    known = {name: values for name, values in KNOWN.items() if name.rpartition(".")[0] == module}
    assert defaults(module) == known
