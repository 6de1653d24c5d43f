"""cbr finds the plugin and its recipe is right. Install it before you run this: pip install -e ."""

import subprocess
import sys
from pathlib import Path

import pytest
from cbrcore import load_plugins, load_recipe

from cbr_llm.agent import LlmAgent, LlmReviser
from cbr_llm.command import tiny_llm

RECIPES = Path(__file__).parents[1]


def test_cbr_finds_the_plugin() -> None:
    (found,) = [plugin for plugin in load_plugins().plugins if plugin.name == "cbr_llm"]
    assert (found.status, found.cause) == ("ok", "")
    registry = load_plugins().registry
    for kind, name, factory in (
        ("agent", "llm", LlmAgent),
        ("agent", "reviser", LlmReviser),
        ("command", "tiny-llm", tiny_llm),
    ):
        assert registry.find(kind, f"cbr_llm/{name}").load_factory() is factory


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_recipes_are_right(recipe: Path) -> None:
    assert load_recipe(recipe, registry=load_plugins().registry).agent.use in ("cbr_llm/llm", "cbr_random/random")


def test_declaring_it_imports_nothing_heavy() -> None:
    code = "import sys, cbr_llm; print({'transformers', 'tokenizers', 'pydantic', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
