"""What ``cbr check`` prints of a recipe that is right: its parts and sections, with what is not at its default."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel

from cbrcore.config import Part, Recipe, nested_parts
from cbrcore.interfaces import HasOverview
from cbrcore.recipe.model import PARTS, SECTIONS
from cbrcore.tables import aligned


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe, one line per part and section; settings at their defaults are left out."""
    parts = [(kind, getattr(recipe, kind)) for kind in PARTS] + [("recorder", each) for each in recipe.recorders]
    sections = {name: getattr(recipe, name) for name in SECTIONS} | dict(recipe.sections)
    rows = [("OK", recipe.name), ("  seed", str(recipe.seed))]
    for kind, part in parts:
        rows += _part_rows(kind, part)
    for name, settings in sections.items():
        rows += _section_rows(name, settings)
    return aligned(rows)


def _part_rows(path: str, part: Part | None) -> Iterator[tuple[str, str]]:
    """The part's row, if there is one, then those of the parts in it."""
    if part is not None:
        yield f"  {path}", f"{part.use}  {_changed(part.settings)}".rstrip()
        yield from _inner_rows(path, part.settings)


def _section_rows(name: str, settings: BaseModel) -> Iterator[tuple[str, str]]:
    """The rows that the section has of its own, or one for all of its settings, then those of the parts in it."""
    if isinstance(settings, HasOverview):
        try:
            rows = list(settings.overview())
        except Exception as error:  # an author's
            rows = [(name, f"(its overview failed: {type(error).__name__}: {error})")]
        yield from ((f"  {what}", value) for what, value in rows)
    else:
        yield f"  {name}", _changed(settings) or "defaults"
        yield from _inner_rows(name, settings)


def _inner_rows(path: str, settings: BaseModel) -> Iterator[tuple[str, str]]:
    for name in nested_parts(settings):
        yield from _part_rows(f"{path}.{name}", getattr(settings, name))


def _changed(settings: BaseModel) -> str:
    """The settings that are not at their defaults and no parts of their own, as JSON; empty if there are none."""
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude=set(nested_parts(settings)))
    return json.dumps(changed) if changed else ""
