"""Packages that others could have written, each its own distribution on public names alone: pip installs them,
their own tests pass, `cbr` says whose they are, and their recipes run."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from third_party_packages import THIRD_PARTY, Installed, Package, install, private_names

ROOT = Path(__file__).parents[1]
GENERATED = ("environment.source=generate", "environment.games_per_split=2", "environment.max_steps=20",
             "evaluation.passes=1", "evaluation.random_passes=1", "run.episodes=2")  # fmt: skip
CASES = ("text_encoder={use: cbr_text_encoders/untrained, dim: 24}", "context_encoder.heads=4",
         "training.pretrain.episodes=2", "training.pretrain.epochs=2")  # fmt: skip
SMALL = {
    ("cbr_itq", "recipe.yaml"): (*GENERATED, *CASES, "quantizer.bits=16", "agent.hidden=8"),
    ("cbr_drrn", "recipe_twc.yaml"): (*GENERATED, "agent.hidden=8", "agent.embedding=8", "learner.batch=8"),
    ("cbr_drrn", "recipe_cbr_twc.yaml"): (
        *GENERATED,
        *CASES,
        "quantizer.parts=8",
        "agent.hidden=8",
        "learner.batch=8",
    ),
}
"""(package, its recipe) -> settings with which that takes seconds and needs no games."""

PACKAGES = sorted(path.parent for path in THIRD_PARTY.glob("*/pyproject.toml"))
NAMES = [path.name for path in PACKAGES]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installed]:
    """An installed package, by its folder's name."""
    return functools.cache(lambda name: install(THIRD_PARTY / name, tmp_path_factory.mktemp(name)))


@pytest.fixture(params=NAMES)
def installed(request: pytest.FixtureRequest, theirs: Callable[[str], Installed]) -> Installed:
    return theirs(request.param)


@pytest.mark.parametrize("folder", PACKAGES, ids=NAMES)
def test_it_is_made_of_public_names(folder: Path):
    package = Package(folder)
    found = {str(path): private_names(source, package.module) for path, source in package.sources()}
    assert {path: names for path, names in found.items() if names} == {}
    assert len(found) > 2


@pytest.mark.parametrize(
    "source",
    [
        "from cbrcore.cycle.retriever import Retriever",
        "import cbrcore.interfaces",
        "from cbrcore import interfaces",
        "from cbrcore.testing import _modules",
        "from cbr_a2c.contrastive import contrastive_loss",
        "def f():\n    import cbr_keys",
        "importlib.import_module('cbr_nn.memo')",
        "factory = 'cbr_vq.quantizer:VectorQuantizer'",
    ],
)
def test_what_is_private_is_found(source: str):
    assert private_names(source, "cbr_mine")


@pytest.mark.parametrize(
    "source",
    [
        "from cbrcore import Build, ComponentConfig, hookimpl",
        "import cbrcore",
        "from cbrcore.testing import QuantizerSuite",
        "import cbrcore.testing",
        "from cbr_mine.config import Config\nfactory = 'cbr_mine.agent:Agent'",
        "import torch",
        "'see cbr_vq and `cbrcore.interfaces`'",
    ],
)
def test_what_is_public_is_not(source: str):
    assert private_names(source, "cbr_mine") == []


def test_its_readme_names_what_it_offers_and_its_recipes(installed: Installed):
    readme, listed = (installed.package.folder / "README.md").read_text(), installed.listed()
    assert readme.startswith(f"# {installed.package.project['name']}\n")
    parts = [part for part in listed["components"] if part["kind"] != "command"]
    assert all(f"`{part['plugin']}/{part['name']}`" in readme for part in parts)
    commands = "".join(re.findall(r"^```(?:sh|text)\n(.*?)^```", readme, re.DOTALL | re.MULTILINE))
    assert set(re.findall(r"\b[\w/]+\.yaml", commands)) == {path.name for path in installed.package.recipes}


def test_the_page_of_peers_names_recipes_that_there_are():
    page = (ROOT / "docs" / "peers.md").read_text()
    named = set(re.findall(r"tests/third_party/[\w/]+\.yaml", page))
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert {(THIRD_PARTY / name / recipe).relative_to(ROOT).as_posix() for name, recipe in SMALL} <= named


def test_its_own_tests_pass(installed: Installed):
    done = installed.own_tests()
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_cbr_says_whose_it_is(installed: Installed):
    listed, project = installed.listed(), installed.package.project
    assert (listed["distribution"], listed["version"]) == (project["name"], project["version"])
    assert listed["status"] == "ok"
    assert listed["components"]


def test_its_recipes_are_valid_and_use_it(installed: Installed):
    assert installed.package.recipes
    for recipe in installed.package.recipes:
        done = installed.cbr("check", recipe)
        assert done.returncode == 0, done.stderr
        assert f"{installed.package.module}/" in recipe.read_text()


@pytest.mark.parametrize(("name", "recipe"), SMALL, ids=map("-".join, SMALL))
def test_its_recipe_runs_and_the_run_says_with_which_version(name: str, recipe: str, theirs, cache_dir, tmp_path):
    package, run = theirs(name), tmp_path / "run"
    sets = [word for setting in SMALL[name, recipe] for word in ("--set", setting)]
    done = package.cbr("run", recipe, *sets, "--out", run, CBR_CACHE=str(cache_dir))
    assert done.returncode == 0, done.stderr
    assert (run / "results.json").is_file()
    project, plugins = package.package.project, json.loads((run / "versions.json").read_text())["plugins"]
    assert plugins[package.package.module] == f"{project['name']} {project['version']}"
