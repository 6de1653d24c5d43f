"""cbr finds the plugin and its recipe is right. Install it before you run this: pip install -e ."""

import subprocess
import sys
from pathlib import Path

from cbrcore import load_plugins, load_recipe

from cbr_twx.environment import TextWorldExpress

RECIPE = Path(__file__).parents[1] / "recipe.yaml"


def test_cbr_finds_the_plugin() -> None:
    (found,) = [plugin for plugin in load_plugins().plugins if plugin.name == "cbr_twx"]
    assert (found.status, found.cause) == ("ok", "")
    part = load_plugins().registry.find("environment", "cbr_twx/twx")
    assert part.load_factory() is TextWorldExpress


def test_the_recipe_is_right() -> None:
    assert load_recipe(RECIPE, registry=load_plugins().registry).environment.use == "cbr_twx/twx"


def test_declaring_it_imports_nothing_heavy() -> None:
    code = "import sys, cbr_twx; print({'textworld_express', 'py4j', 'pydantic', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
