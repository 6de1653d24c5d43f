"""The folder of any plugin may be deleted: the others are listed, recipes without it are fine, and a run works."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(folder.name for folder in (ROOT / "plugins").iterdir() if (folder / "__init__.py").is_file())
RECIPES = sorted(path for path in (ROOT / "recipes").rglob("*.yaml") if path.name != "paper.yaml")
EVERY_RUN_NEEDS = ("cbr_border", "cbr_keys")
"""Packages without which nothing is run: one checks what parts give, by terms of the other."""

LOOSE = """
from cbrcore import hookimpl
from cbrcore.testing import WordHashEncoder
from toy import ToyEnvironment

class Environment(ToyEnvironment):
    def __init__(self, config, build):
        super().__init__()

class Counting:
    skipped = 0
    def __init__(self, config, build): self.steps = 0
    def begin(self, players, training, streams, clock): ...
    def took_step(self, seat, transition): self.steps += 1
    def round_of_steps_done(self): ...
    def pop_losses(self): return {}
    def tensors(self): return {}
    def load_tensors(self, tensors): ...

@hookimpl
def register_environments(registry):
    registry.add("toy", factory="loose:Environment")

@hookimpl
def register_text_encoders(registry):
    registry.add("words", factory="loose:WordHashEncoder")

@hookimpl
def register_learners(registry):
    registry.add("counting", factory="loose:Counting")
"""
SMALL = """
schema: 1
name: small
environment: {use: loose/toy}
text_encoder: {use: loose/words}
PARTS
training: {pretrain: null}
evaluation: {passes: 1, random_passes: 1}
recorders: []
run: {episodes: 2}
"""
TRIES = (
    """agent: {use: cbr_text/text, hidden: 8}
context_encoder: {use: cbr_seeded_gat/seeded_gat, heads: 4}
quantizer: {use: cbr_vq/vq, parts: 8, codes: 8}
memory: {threshold: 0.7}""",
    "agent: {use: cbr_random/random}\nlearner: {use: loose/counting}",
)
"""Parts of runs; the first that does without the plugin is tried."""

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


@dataclass
class House:
    """An unpacked wheel, whose packages may be taken away; what it needs is found where this Python finds it."""

    folder: Path

    def run(self, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
        paths = [str(self.folder), str(Path(__file__).parent), *(p for p in sys.path if "site-packages" in p)]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CBR_STRICT")}
        return subprocess.run(
            [sys.executable, "-S", *words],  # -S: no path file, which might lead to the source tree
            cwd=self.folder,
            env={**kept, "PYTHONPATH": os.pathsep.join(paths), "CBR_GAMES": str(self.folder / "games")},
            input=told,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = tmp_path_factory.mktemp("house")
    zipfile.ZipFile(wheel).extractall(folder)
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    (folder / "games" / "twc").mkdir(parents=True)
    (folder / "loose.py").write_text(LOOSE)
    return House(folder)


@pytest.fixture
def house(whole: House, plugin: str, tmp_path: Path):
    (whole.folder / plugin).rename(tmp_path / plugin)
    yield whole
    (tmp_path / plugin).rename(whole.folder / plugin)


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


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_it_a_run_works(house: House, plugin: str, tmp_path: Path):
    said = []
    for number, parts in enumerate(TRIES):
        recipe = tmp_path / f"small{number}.yaml"
        recipe.write_text(SMALL.replace("PARTS", parts))
        words = ("run", str(recipe), "--plugin", "loose.py", "--out", str(tmp_path / f"run{number}"))
        done = house.run("-m", "cbrcore.cli", *words)
        assert "Traceback" not in done.stderr
        if done.returncode == 0:
            assert (
                json.loads((tmp_path / f"run{number}" / "results.json").read_text())["training"]["env_steps"] > 0
            )
            return
        assert plugin in done.stderr
        said.append(done.stderr)
    assert plugin in EVERY_RUN_NEEDS, said
    assert "pip install --force-reinstall cbr-textrl" in said[-1]


def test_nothing_is_missing_from_the_whole(whole: House):
    """What the tests above see is due to the folder that they take away."""
    recipes = [str(path.relative_to(ROOT)) for path in RECIPES]
    said = json.loads(whole.run("-c", LOOK, told=json.dumps(recipes)).stdout)
    assert (said["problems"], said["recipes"]) == ([], {})
