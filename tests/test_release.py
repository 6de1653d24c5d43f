"""What a release consists of agrees: version, changelog, citation, the lowest versions, what is built."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from cbrcore import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_version_is_the_same_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text()
    head = re.search(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", changes, re.MULTILINE)
    assert head is not None
    assert {head[1], CITATION["version"], PROJECT["version"]} == {__version__}


def test_the_citation_names_the_paper_and_its_authors():
    paper = CITATION["preferred-citation"]
    assert paper["title"].startswith("Case-based Reasoning for Better Generalization")
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Atzeni", "Dhuliawala", "Murugesan", "Sachan"]
    assert CITATION["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)


def lowest(*extras: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "lowest.py", *extras], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_every_dependency_has_a_lowest_version_which_is_what_is_tried():
    bounded = [Requirement(each) for each in PROJECT["dependencies"]]
    assert [each.name for each in bounded if not each.specifier] == []
    tried = dict(line.split("==") for line in lowest())
    assert set(tried) == {each.name for each in bounded} - {"torch"}
    for each in bounded:
        assert each.name == "torch" or Version(tried[each.name]) in each.specifier


def test_an_extras_lowest_versions_are_tried_too():
    assert set(lowest("report")) - set(lowest()) == {"altair==6", "vl-convert-python==1.9"}


def test_a_source_distribution_holds_what_the_tests_need(tmp_path: Path):
    pytest.importorskip("setuptools", minversion="77")
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    copy = tmp_path / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    needed = {"recipes/quickstart.yaml", "README.md", "CHANGELOG.md", "tests/conftest.py", "docs/releases.md"}
    assert needed <= held
