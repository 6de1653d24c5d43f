"""Plugins for tests: real distributions (a module and its dist-info) on a temporary path. No network, no pip."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THIRDPARTY = Path(__file__).parent / "data" / "thirdparty"


class Site:
    """A folder that acts as a second site-packages, for this process and for its children."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._modules_before = set(sys.modules)
        self.expose(folder)

    def expose(self, folder: Path) -> None:
        """Put a folder on the path."""
        self._monkeypatch.syspath_prepend(str(folder))
        before = os.environ.get("PYTHONPATH")
        self._monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *([before] if before else [])]))

    def distribution(self, name: str, version: str, entry_points: Mapping[str, str]) -> None:
        """Declare an installed distribution and its entry points."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{point} = {value}\n" for point, value in entry_points.items()]
        (info / "entry_points.txt").write_text("[cbrcore.plugins]\n" + "".join(lines))
        importlib.invalidate_caches()

    def module(self, name: str, source: str) -> Path:
        """Write a module."""
        path = self.folder / f"{name}.py"
        path.write_text(source)
        importlib.invalidate_caches()
        return path

    def plugin(self, name: str, source: str, *, distribution: str | None = None, version: str = "1.0") -> None:
        """A module that is a plugin of its own distribution; both have the same name by default."""
        self.module(name, source)
        self.distribution(distribution or name, version, {name: name})

    def forget_modules(self) -> None:
        """Undo the imports of the test's own modules."""
        for name in set(sys.modules) - self._modules_before:
            origin = getattr(sys.modules[name], "__file__", None) or ""
            if origin.startswith((str(self.folder.parent), str(THIRDPARTY))):
                del sys.modules[name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty extra site-packages; CBR_LOAD_PLUGINS and CBR_STRICT_PLUGINS are unset."""
    monkeypatch.delenv("CBR_LOAD_PLUGINS", raising=False)
    monkeypatch.delenv("CBR_STRICT_PLUGINS", raising=False)
    folder = tmp_path / "site"
    folder.mkdir()
    made = Site(folder, monkeypatch)
    yield made
    made.forget_modules()


@pytest.fixture
def thirdparty(site: Site) -> Site:
    """The sample third-party distribution `acme-cbr`, as if pip had installed it."""
    project = tomllib.loads((THIRDPARTY / "pyproject.toml").read_text())["project"]
    site.expose(THIRDPARTY)
    site.distribution(project["name"], project["version"], project["entry-points"]["cbrcore.plugins"])
    return site


def run_cbr(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The real command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "cbrcore.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
        check=False,
    )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with setuptools, as pip does it, from a copy of the source."""
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path_factory.mktemp("source")
    for name in ("cbrcore", "plugins", "recipes"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    code = "from setuptools.build_meta import build_wheel; build_wheel('out')"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = (source / "out").glob("*.whl")
    return built
