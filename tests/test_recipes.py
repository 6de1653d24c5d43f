"""Every shipped recipe is valid, says what it is, and uses qualified names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbrcore.config import Part
from cbrcore.plugins import load_plugins
from cbrcore.recipe import dump_recipe, load_recipe, read_recipe_text

FOLDER = Path(__file__).parents[1] / "recipes"
NO_RECIPE = FOLDER / "tables" / "paper.yaml"
"""The paper's numbers; tests/test_tables.py reads them."""
RECIPES = sorted(path for path in FOLDER.rglob("*.yaml") if path != NO_RECIPE)


@pytest.fixture(scope="module")
def registry():
    return load_plugins().registry


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_recipe_is_valid_and_survives_being_written_out(path, registry):
    recipe = load_recipe(path, registry=registry)
    again = read_recipe_text(dump_recipe(recipe), "resolved", registry=registry)
    assert again == recipe


@pytest.mark.parametrize("path", RECIPES, ids=name_of)
def test_recipe_starts_with_what_it_is_and_uses_qualified_names(path, registry):
    text = path.read_text()
    assert text.startswith("# ")
    recipe = load_recipe(path, registry=registry)
    parts = {key: value for key, value in recipe if isinstance(value, Part)}
    for part in parts.values():
        assert "/" in part.use
    by_default = ("text_encoder", "memory", "reuse_policy", "learner")
    assert all(f"use: {part.use}" in text for key, part in parts.items() if key not in by_default)


def test_smoke_recipes_are_small(registry):
    smoke = [load_recipe(path, registry=registry) for path in RECIPES if path.parent.name == "smoke"]
    assert smoke
    assert all((recipe.run.episodes or 0) <= 3 or (recipe.run.env_steps or 0) <= 500 for recipe in smoke)
