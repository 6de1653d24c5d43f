"""What the README says is run: its recipe, its plugin, its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cbrcore import hookspecs
from cbrcore.plugins import load_plugins
from cbrcore.recipe import read_recipe_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_the_recipe_in_the_readme_is_valid():
    (text,) = blocks("yaml")
    assert read_recipe_text(text, "README.md", registry=load_plugins().registry).uses_cases


@pytest.mark.usefixtures("site")
def test_the_plugin_in_the_readme_runs_and_passes_its_own_suite(tmp_path, cbr):
    plugin, suite = blocks("python")
    (tmp_path / "early_bird.py").write_text(plugin)
    (tmp_path / "test_early_bird.py").write_text(suite)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "4 passed" in tested.stdout, tested.stdout
    recipe = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"
    arguments = ["--plugin", tmp_path / "early_bird.py", "--set", "retain_policy.use=early_bird/early_bird"]
    done = cbr("run", recipe, *arguments, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr


def test_every_command_and_option_in_the_readme_exists(cbr):
    for line in re.findall(r"`(cbr [^`]+)`", README):
        words = line.replace("\\", "").replace("|", " ").split()
        helped = cbr(words[1], "--help")
        assert helped.returncode == 0, line
        for option in re.findall(r"--[\w-]+", line):
            assert option in helped.stdout, (line, option)


def test_every_command_is_in_the_readme(cbr):
    names = re.findall(r"^\W+([a-z-]+)  +[A-Z]", cbr("--help").stdout, re.MULTILINE)
    assert {"run", "check"} <= set(names)
    assert [name for name in names if f"cbr {name}" not in README] == []


def test_every_hook_is_documented():
    hooks = [name for name in vars(hookspecs) if name.startswith("register_")]
    assert len(hooks) == 15
    for name in hooks:
        assert getattr(hookspecs, name).__doc__
        assert name.removeprefix("register_").replace("_", " ") in README, name


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("plugins/*/README.md")], ids=str
)
def test_files_named_in_the_docs_exist(path):
    text = path.read_text()
    named = re.findall(r"`((?:cbrcore|plugins|recipes|tests)/[\w./-]+)`", text)
    missing = [name for name in named if not (ROOT / name.rstrip("/")).exists()]
    assert missing == []
