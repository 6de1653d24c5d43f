"""Installs a package of tests/third_party as its author's users would, and runs it in processes of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

THIRD_PARTY = Path(__file__).parent / "third_party"


@dataclass(frozen=True)
class Site:
    """A folder into which pip has installed a package, beside the package's source without its module.

    Attributes:
        source: the copy: pyproject.toml, README, recipes, tests.
        folder: what goes on the path.
    """

    source: Path
    folder: Path

    def python(self, *words: object, timeout: int = 500, **env: str) -> subprocess.CompletedProcess[str]:
        """``python WORDS``, in the folder of the source; plugins that fail are an error."""
        path = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH", "")]))
        return subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self.source,
            env={**os.environ, "PYTHONPATH": path, "CBR_STRICT_PLUGINS": "1", **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def cbr(self, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        """``cbr WORDS``."""
        return self.python("-m", "cbrcore.cli", *words, **env)

    def own_tests(self) -> subprocess.CompletedProcess[str]:
        """Its tests; of the package only what is installed is on the path."""
        return self.python(
            "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "tests"
        )


def installed(package: str, folder: Path) -> Site:
    """What pip makes of a copy of the package, without network; what it needs is what is here."""
    copy, site = folder / package, folder / "site"
    shutil.copytree(
        THIRD_PARTY / package, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), str(copy)]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(copy / package)
    return Site(copy, site)
