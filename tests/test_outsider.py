"""An outsider's path, command by command as its page tells it: from an empty folder to a part of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "outside.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINES = [line for block in BLOCK.findall(PAGE.read_text()) for line in block.splitlines()]
INSTALLS = [
    "python3 -m venv .venv && . .venv/bin/activate",
    "pip install torch==2.13.0",
    "pip install 'cbr-textrl[report]'",
    "pip install -e '.[test]'",
]
"""What CI does with a network; here a new environment sees the dependencies of the one that runs the tests."""


class Outsider:
    """Someone at a shell, in an empty folder, with an environment of their own."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.home, self.here, self.wheel = home, home, wheel
        self.bin = home / ".venv" / "bin"

    def install(self, *words: str) -> None:
        """pip, without a network: what is needed is there."""
        options = ["--no-deps", "--no-index", "--no-build-isolation"]
        self.check(
            [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", *options, *words]
        )

    def type(self, line: str) -> str:
        """What a line of the page prints."""
        if line == INSTALLS[0]:
            venv.create(self.home / ".venv", with_pip=False)
            (site,) = self.home.glob(".venv/lib/python*/site-packages")
            (site / "dependencies.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p))
            return ""
        if line == INSTALLS[1]:
            return ""  # it sees it
        if line == INSTALLS[2]:
            self.install(str(self.wheel))
            return ""
        if line == INSTALLS[3]:
            self.install("-e", ".")
            return ""
        if line.startswith("cd "):
            self.here /= line.removeprefix("cd ")
            return ""
        words = shlex.split(line, comments=True)
        program = {"cbr": [str(self.bin / "cbr")], "python": [str(self.bin / "python")]}[words[0]]
        return self.check([*program, *words[1:]])

    def check(self, words: list[str]) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = os.pathsep.join([str(self.bin), kept["PATH"]])
        done = subprocess.run(
            words,
            cwd=self.here,
            env=kept | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        assert "Traceback" not in done.stderr, (words, done.stderr[-2000:])
        return done.stdout


def test_the_page_installs_as_this_test_does():
    assert [line for line in LINES if "install" in line.split() or "venv" in line.split()] == INSTALLS


@pytest.mark.timeout(1500)
def test_from_an_empty_folder_to_a_run_with_ones_own_part(wheel: Path, tmp_path: Path):
    pytest.importorskip("pip")
    outsider = Outsider(tmp_path, wheel)
    said = {line: outsider.type(line) for line in LINES}
    assert sysconfig.get_path("purelib") not in outsider.check([str(outsider.bin / "python"), "-c", WHERE])
    assert "my_policy/recent" in said["cbr list-plugins -v"]
    assert re.search(r"\d+ passed", said["python -m pytest"])
    (trained,) = (text for line, text in said.items() if line.startswith("cbr run recipe.yaml"))
    assert "uniform random" in trained
    assert "my_policy" in (tmp_path / "my_policy" / "compared.html").read_text()
    assert (
        "retain_policy:\n  use: my_policy/recent\n  k: 3"
        in (tmp_path / "runs" / "mine" / "recipe.yaml").read_text()
    )


WHERE = "import cbrcore; print(cbrcore.__file__)"
