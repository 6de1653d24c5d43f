"""Packages by other authors, in tests/third_party: installed by pip as theirs would be, and run in processes of
their own. What they may use of this project is what it calls public."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cbrcore

THIRD_PARTY = Path(__file__).parent / "third_party"
SUITES = "cbrcore.testing"
PROJECT = re.compile(r"cbrcore|cbr_\w+")
IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)*(:\w+)?")


@dataclass(frozen=True)
class Package:
    """A package as its author has it: ``pyproject.toml``, ``README.md``, the module, recipes, ``tests/``."""

    folder: Path

    @property
    def project(self) -> dict[str, Any]:
        """``[project]`` of its pyproject.toml."""
        found: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]
        return found

    @property
    def module(self) -> str:
        """Its one plugin, and the module of it."""
        (found,) = self.project["entry-points"]["cbrcore.plugins"].values()
        return str(found)

    @property
    def recipes(self) -> list[Path]:
        """Its recipes, sorted."""
        return sorted(self.folder.glob("*.yaml"))

    def sources(self) -> Iterator[tuple[Path, str]]:
        """Every Python file of it, its tests too, and what stands there."""
        for path in sorted(self.folder.rglob("*.py")):
            yield path, path.read_text()


@dataclass(frozen=True)
class Installed:
    """A package that pip has installed into a folder, beside a copy of its source."""

    package: Package
    """The copy."""
    site: Path

    def env(self, **more: str) -> dict[str, str]:
        """Where a child finds the package; plugins that fail are an error."""
        before = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(self.site), *([before] if before else [])])
        return {**os.environ, "PYTHONPATH": path, "CBR_STRICT_PLUGINS": "1", **more}

    def python(self, *words: object, timeout: int = 400, **env: str) -> subprocess.CompletedProcess[str]:
        """``python WORDS`` in the folder of the source."""
        return subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self.package.folder,
            env=self.env(**env),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def cbr(self, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        """``cbr WORDS``."""
        return self.python("-m", "cbrcore.cli", *words, **env)

    def run_twice(self, recipe: str, *settings: str, folder: Path) -> None:
        """Run a recipe into `folder` as ``once`` and ``again``: both end well, with the same rows."""
        rows = []
        for name in ("once", "again"):
            sets = [word for setting in settings for word in ("--set", setting)]
            done = self.cbr("run", self.package.folder / recipe, *sets, "--out", folder / name)
            assert done.returncode == 0, done.stderr
            rows.append((folder / name / "metrics.jsonl").read_bytes())
        assert rows[0] == rows[1] != b""

    def own_tests(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Its tests, as its author runs them; only the installed module is on the path."""
        own = ("-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "tests")
        return self.python(*own, *words, timeout=580)

    def listed(self) -> dict[str, Any]:
        """What ``cbr list-plugins --json`` says of it."""
        done = self.cbr("list-plugins", "--json")
        assert done.returncode == 0, done.stderr
        (found,) = [plugin for plugin in json.loads(done.stdout) if plugin["name"] == self.package.module]
        return dict(found)


def install(source: Path, folder: Path) -> Installed:
    """Copy the package and let pip install it into `folder`; what it needs is what is here. No network."""
    copy, site = folder / source.name, folder / "site"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), str(copy)]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(copy / Package(copy).module)  # what is imported is what pip installed
    return Installed(Package(copy), site)


def private_names(source: str, own: str) -> list[str]:
    """What a package of others may not use: names of the project that are not public, and other plugins; in
    imports, and in strings that are import paths.

    Args:
        own: the package's module, which it may name.
    """
    tree = ast.parse(source)
    named = [(line, name) for node in ast.walk(tree) for line, name in _named(node)]
    return [f"line {line}: {name}" for line, name in named if not _may(name, own)]


def _named(node: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a node imports, or names for an import."""
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ((node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IMPORT_PATH.fullmatch(node.value):
        yield node.lineno, node.value.replace(":", ".")


def _may(name: str, own: str) -> bool:
    first, *rest = name.split(".")
    if not PROJECT.fullmatch(first) or first == own:
        return True
    if first != "cbrcore":
        return False
    suites = [*rest, ""][:2][0] == "testing" and len(rest) <= 2 and not rest[-1].startswith("_")
    return suites or not rest or (len(rest) == 1 and rest[0] in cbrcore.__all__)
