"""An installed copy of everything, from which one plugin's folder is taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(folder.name for folder in (ROOT / "plugins").iterdir() if (folder / "__init__.py").is_file())
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


@pytest.fixture(scope="session")
def whole(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = tmp_path_factory.mktemp("house")
    zipfile.ZipFile(wheel).extractall(folder)
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    (folder / "games" / "twc").mkdir(parents=True)
    (folder / "loose.py").write_text(LOOSE)
    return House(folder)


@pytest.fixture
def house(whole: House, plugin: str, tmp_path: Path) -> Iterator[House]:
    (whole.folder / plugin).rename(tmp_path / plugin)
    yield whole
    (tmp_path / plugin).rename(whole.folder / plugin)
