"""The folder of any plugin may be deleted: the others are listed, and recipes that do without it are fine."""

from __future__ import annotations

import configparser
import json

import pytest
from taken_away import PLUGINS, ROOT, House

RECIPES = sorted(path for path in (ROOT / "recipes").rglob("*.yaml") if path.name != "paper.yaml")

LOOK = """
import json, sys
from pathlib import Path
from cbrcore.errors import CbrError
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
found = load_plugins()
recipes = json.loads(sys.stdin.read())
said = {"loaded": [info.name for info in found.plugins if info.status == "ok"], "problems": found.problems()}
said["recipes"] = {}
for path in recipes:
    try:
        load_recipe(Path(path), registry=found.registry)
    except CbrError as error:
        said["recipes"][path] = str(error)
print(json.dumps(said))
"""


def mentions(text: str, plugin: str) -> bool:
    return f"{plugin}/" in text or f"'{plugin}'" in text


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_it_the_others_are_listed_and_recipes_without_it_are_fine(house: House, plugin: str):
    recipes = [str(path.relative_to(ROOT)) for path in RECIPES]
    done = house.run("-c", LOOK, told=json.dumps(recipes))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    offered = declared(house)
    assert sorted(said["loaded"]) == sorted(offered - {plugin})
    assert [plugin in line for line in said["problems"]] == [True] * (plugin in offered)
    for path in recipes:
        if path in said["recipes"]:
            error = said["recipes"][path]
            assert mentions(error, plugin) or (plugin == "cbr_sweep" and "sweep: unknown key" in error), error
        else:
            assert f"{plugin}/" not in (ROOT / path).read_text(), path


def declared(house: House) -> set[str]:
    """The plugins of the wheel's entry points."""
    (file,) = house.folder.glob("*.dist-info/entry_points.txt")
    points = configparser.ConfigParser()
    points.read_string(file.read_text())
    return set(points["cbrcore.plugins"])


def test_nothing_is_missing_from_the_whole(whole: House):
    """What the tests above see is due to the folder that they take away."""
    recipes = [str(path.relative_to(ROOT)) for path in RECIPES]
    said = json.loads(whole.run("-c", LOOK, told=json.dumps(recipes)).stdout)
    assert (said["problems"], said["recipes"]) == ([], {})
