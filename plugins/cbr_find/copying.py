"""A recipe of one's own: a copy of one that is here, with its comments."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cbr_find.facts import MODELINE
from cbr_find.shipped import FOLDER, RecipeFile
from cbrcore.errors import CbrError
from cbrcore.recipe import read_recipe_text, shipped
from cbrcore.recipe.text import dump
from cbrcore.registry import Registry
from cbrcore.runs.folder import write_atomically

SCHEMA = Path(FOLDER) / "recipe.schema.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def copy_recipe(source: RecipeFile, name: str, registry: Registry) -> Path:
    """Write ``NAME.yaml`` into the working directory.

    Raises:
        CbrError: the name is no file's name, such a file is there, or the copy would not pass `cbr check`.
    """
    name = name.removesuffix(".yaml")
    if not NAME.fullmatch(name):
        raise CbrError(
            f"{name!r} cannot be a recipe's name: it may hold letters, digits, '_', '-' and '.'",
            hint="cbr new-recipe my_recipe",
        )
    to = Path(f"{name}.yaml")
    if os.path.lexists(to):
        raise CbrError(f"{to} is there already", hint="take another name, or move it away")
    text = copied(source.file.read_text(encoding="utf-8-sig"), name, schema_from(Path.cwd()))
    read_recipe_text(text, f"the copy of {source.path}", folder=Path.cwd(), registry=registry)
    write_atomically(to, text)
    return to


def copied(text: str, name: str, schema: str | None) -> str:
    """The recipe's text under another name, with the line that tells editors where the schema is."""
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(MODELINE))
    line = dump({"name": name}).strip()
    named, count = re.subn(r"^name *:.*$", lambda _: line, body, count=1, flags=re.MULTILINE)
    if not count:
        named = re.sub(r"^(schema *:.*)$", lambda found: f"{found[1]}\n{line}", body, count=1, flags=re.MULTILINE)
    return f"{MODELINE} $schema={schema}\n{named}" if schema else named


def schema_from(folder: Path) -> str | None:
    """Where the schema lies that came with the package: relative if it is below `folder`; None without one."""
    found = shipped(SCHEMA)
    if found is None:
        return None
    return found.relative_to(folder).as_posix() if found.is_relative_to(folder) else found.as_posix()
