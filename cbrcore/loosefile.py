"""Import one Python file by its path, under its own name (``--plugin FILE.py``)."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from cbrcore.errors import PluginError


def import_file(path: Path) -> ModuleType:
    """Import the file as the module of its own name, so that "name:Class" finds what is in it.

    Raises:
        PluginError: the name is no module name, or would hide another module.
    """
    name = path.stem
    if not name.isidentifier() or name == "__init__":
        raise PluginError(f"{path.name!r} cannot be imported by name; use letters, digits and '_'")
    spec = importlib.util.find_spec(name)
    if spec is None:
        return _execute(name, path)
    if spec.origin is not None and Path(spec.origin).resolve() == path:
        return importlib.import_module(name)
    raise PluginError(f"{path.name!r} would hide the module {name!r} ({spec.origin}); rename the file")


def _execute(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends with .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
