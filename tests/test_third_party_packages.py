"""Packages that others could have written, each its own distribution on public names alone: pip installs them,
their own tests pass, `cbr` says whose they are, and their recipes run."""

from __future__ import annotations

from pathlib import Path

import pytest
from third_party_packages import THIRD_PARTY, Installed, Package, install, private_names

PACKAGES = sorted(path.parent for path in THIRD_PARTY.glob("*/pyproject.toml"))
NAMES = [path.name for path in PACKAGES]


@pytest.fixture(scope="module", params=PACKAGES, ids=NAMES)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(request.param, tmp_path_factory.mktemp(request.param.name))


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
