"""What README and CONTRIBUTING say is run: every block of them, and every command that a sentence names."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from slow_tests import SLOW, is_slow

from cbrcore import hookspecs
from cbrcore.plugins import load_plugins
from cbrcore.recipe import read_recipe_text, shipped

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SMOKE = ROOT / "recipes" / "smoke" / "text_cbr_generated.yaml"


def blocks(language: str, text: str = README) -> list[str]:
    return [body for name, body in BLOCK.findall(text) if name == language]


def python_with(word: str) -> str:
    (found,) = (body for body in blocks("python") if word in body)
    return found


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_block_is_of_a_kind_that_is_tested(text):
    """Commands (sh), programs (python) and recipes (yaml) are run below; text is what they print, or a layout."""
    assert {name for name, _ in BLOCK.findall(text)} <= {"sh", "python", "yaml", "text"}


def test_the_recipe_in_the_readme_is_valid():
    (text,) = blocks("yaml")
    assert read_recipe_text(text, "README.md", registry=load_plugins().registry).uses_cases


# python


@pytest.mark.usefixtures("site")
def test_the_plugin_in_the_readme_runs_and_passes_its_own_suite(tmp_path, cbr):
    (tmp_path / "early_bird.py").write_text(python_with("# early_bird.py"))
    (tmp_path / "test_early_bird.py").write_text(python_with("RetainPolicySuite"))
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "5 passed" in tested.stdout, tested.stdout
    arguments = ["--plugin", tmp_path / "early_bird.py", "--set", "retain_policy.use=early_bird/early_bird"]
    done = cbr("run", SMOKE, *arguments, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("site")
def test_the_command_and_the_report_section_in_the_readme_work(tmp_path, cbr):
    (tmp_path / "outsider.py").write_text(python_with("# outsider.py"))
    hello = cbr("hello", "--name", "you", "--plugin", "outsider.py", cwd=tmp_path)
    assert (hello.returncode, hello.stdout) == (0, "hello, you\n"), hello.stderr
    assert cbr("run", SMOKE, "--out", tmp_path / "runs" / "one").returncode == 0
    report = cbr("report", "runs/one", "--no-decisions", "--plugin", "outsider.py", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "Longest episodes" in (tmp_path / "runs" / "one" / "report.html").read_text()


def test_the_python_door_in_the_readme_works(tmp_path, cache_dir, monkeypatch):
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    done = subprocess.run(
        [sys.executable, "-c", python_with("import cbrcore as cbr")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d+ [\d.]+", lines[0])
    assert all(line.startswith(("agent ", "reuse ")) for line in lines[1:3])


# commands

OTHERS = ("python3 -m venv", ". .venv", "pip install", "export ", "for ", "do", "done", "cd ", "python -m pytest",
          "ruff ", "mypy ")  # fmt: skip
"""Words with which lines begin that are no commands of ours; CI runs the installing and testing ones."""


def commands_in(block: str) -> list[str]:
    """The simple commands of a block: continued lines joined, comments and loops taken off."""
    joined = block.replace("\\\n", " ")
    plain = re.sub(r"\s#.*$", "", joined, flags=re.MULTILINE)
    return [part.strip() for part in re.split(r"&&|;|\n", plain) if part.strip()]


COMMANDS = [
    line.removeprefix("do ").strip()
    for text in (README, CONTRIBUTING)
    for block in blocks("sh", text)
    for line in commands_in(block)
]
OURS = sorted({line for line in COMMANDS if line.startswith("cbr ")})


def test_every_line_of_the_blocks_is_a_command_that_is_known():
    assert [line for line in COMMANDS if not line.startswith(("cbr ", *OTHERS))] == []


@pytest.mark.parametrize("line", OURS)
def test_the_command_of_a_block_exists_with_its_options_and_recipe(line, here, monkeypatch, tmp_path):
    (tmp_path / "twc" / "easy").mkdir(parents=True)
    monkeypatch.setenv("CBR_GAMES", str(tmp_path))  # recipes name it
    words = shlex.split(line.replace("$", "").replace("{", "").replace("}", ""))
    name, *rest = words[1:]
    if name not in ("hello",):  # README's own plugin
        sub = rest[:1] if name == "games" else []
        helped = here(name, *sub, "--help")
        assert helped.returncode == 0, line
        for option in (word for word in rest if word.startswith("--")):
            assert option in helped.stdout, (line, option)
    recipe = next((word for word in rest if word.endswith(".yaml")), None)
    if recipe is not None and "$" not in line:
        assert shipped(Path(recipe)), recipe
        sets = [part for a, b in pairwise(rest) if a == "--set" for part in ("--set", b)]
        loose = any(word.startswith("early_bird") for word in rest)
        checked = here("check", recipe, *([] if loose else sets))
        assert checked.returncode == 0, checked.stderr


def test_ci_runs_the_commands_that_install_and_test():
    ci = (ROOT / ".ci" / "run").read_text()
    for line in (
        "pip install -q torch==2.13.0",
        "pip install -q -e '.[test,dev]'",
        "python -m pytest -n auto --dist loadfile",
    ):
        assert line in ci
        assert line.replace(" -q", "") in README
    for line in ("ruff check .", "ruff format --check .", "mypy cbrcore plugins"):
        assert line in ci
        assert line in CONTRIBUTING


def test_every_command_and_option_in_the_readme_exists(here):
    for line in re.findall(r"`(cbr [^`]+)`", README):
        words = line.replace("\\", "").replace("|", " ").split()
        helped = here(words[1], "--help")
        assert helped.returncode == 0, line
        for option in re.findall(r"--[\w-]+", line):
            assert option in helped.stdout, (line, option)


def test_every_command_is_in_the_readme(here):
    names = re.findall(r"^[^\w-]+([a-z][a-z-]*)  +[A-Z]", here("--help").stdout, re.MULTILINE)
    assert {"run", "check"} <= set(names)
    assert [name for name in names if f"cbr {name}" not in README] == []


def test_every_hook_is_documented():
    hooks = [name for name in vars(hookspecs) if name.startswith("register_")]
    assert len(hooks) == 17
    for name in hooks:
        assert getattr(hookspecs, name).__doc__
        assert name.removeprefix("register_").replace("_", " ") in README.replace("\n", " "), name


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("plugins/*/README.md")], ids=str
)
def test_files_named_in_the_docs_exist(path):
    text = path.read_text()
    named = re.findall(r"`((?:cbrcore|plugins|recipes|tests)/[\w./-]+)`", text)
    missing = [name for name in named if not (ROOT / name.rstrip("/")).exists()]
    assert missing == []


def test_the_house_in_contributing_is_the_house():
    (house,) = blocks("text", CONTRIBUTING)
    folders = re.findall(r"^  (\w+/)", house, re.MULTILINE)
    modules = re.findall(r"^  ([a-z ]+?)   ", house, re.MULTILINE)
    named = [*folders, *(f"{name}.py" for line in modules for name in line.split())]
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "cbrcore" / name).exists()] == []


def test_every_fault_in_the_table_names_a_test_that_there_is():
    rows = [line for line in (ROOT / "docs" / "faults.md").read_text().splitlines() if line.startswith("| ")][1:]
    named = [re.fullmatch(r"\| .+ \| .+ \| `(tests/[\w/]+\.py)::(test_\w+)` \|", row) for row in rows]
    assert all(named), [row for row, found in zip(rows, named, strict=True) if not found]
    lost = [found[0] for found in named if f"def {found[2]}(" not in (ROOT / found[1]).read_text()]
    assert lost == []
    assert len({found[2] for found in named}) >= 30


def test_the_slow_tests_are_there_and_ci_runs_them_too():
    """Each line of slow_tests.py names some, and `.ci/run` has both commands: what is quick, and what is slow."""
    for line in SLOW:
        path, *names = line.split("::")
        assert (ROOT / "tests" / path).exists(), line
        source = (ROOT / "tests" / path).read_text() if names else ""
        assert all(re.search(rf"(def|class) {name}\b", source) for name in names), line
    assert is_slow("tests/benchmarks/test_twc.py::test_any[1]")
    assert not is_slow("tests/test_docs.py::test_any")
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "-m pytest" in line]
    assert commands == [f"python -m pytest -n auto --dist loadfile{more}" for more in ("", " -m slow")]
