"""What a shell completes, through the shell's own protocol."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cbrcore.cli import CORE
from cbrcore.plugins import load_plugins

ROOT = Path(__file__).parents[2]
BASH = shutil.which("bash")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Holds runs, a sweep, and things that are none."""
    for name in ("one", "a b", "twc/text-seed=0", "nothing", "twc/jobs"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for name in ("one", "a b", "twc/text-seed=0"):
        (tmp_path / "runs" / name / "recipe.yaml").write_text("")
    (tmp_path / "runs" / "twc" / "sweep.json").write_text("{}")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "recipe.yaml").write_text("")
    (tmp_path / "mine.yaml").write_text("schema: 1\nenvironment: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def completed(here, monkeypatch):
    """What is offered for the last of the words, as bash asks for it."""

    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("_CBR_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        done = here()
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1] if done.stdout.strip() else []

    return complete


def test_names_of_commands_the_cores_and_those_of_plugins(completed, folder):
    assert completed("cbr", "ru") == ["run", "runs"]
    offered = {component.name for component in load_plugins().registry.of_kind("command")}
    assert set(completed("cbr", "")) == {*CORE, *offered}


@pytest.mark.parametrize("command", ["run", "check", "sweep", "pretrain", "recipes"])
def test_recipes_shipped_and_ones_own(completed, folder, command):
    assert completed("cbr", command, "recipes/quick") == [
        "recipes/quickstart.yaml", "recipes/quickstart_jericho.yaml"]  # fmt: skip
    assert completed("cbr", command, "mi") == ["mine.yaml"]
    assert completed("cbr", command, "/") == []  # the shell's own files


def test_the_recipe_to_copy(completed, folder):
    assert completed("cbr", "new-recipe", "x", "--from", "recipes/tables/tw") == ["recipes/tables/twc.yaml"]


@pytest.mark.parametrize(
    "words",
    [["evaluate"], ["play"], ["report"], ["report", "runs/one"], ["compare"], ["compare", "runs/one"], ["runs"],
     ["cases"], ["cases", "list"], ["cases", "show"], ["cases", "export"], ["run", "--resume"]],
    ids=" ".join,
)  # fmt: skip
def test_folders_of_runs_and_of_sweeps(completed, folder, words):
    assert completed("cbr", *words, "runs/") == ["runs/a b", "runs/one", "runs/twc"]
    assert completed("cbr", *words, "runs/twc/") == ["runs/twc/text-seed=0"]
    assert completed("cbr", *words, "her") == ["here"]


def test_runs_are_found_where_they_are_typed(completed, folder):
    assert completed("cbr", "play", f"{folder}/runs/o") == [f"{folder}/runs/one"]
    assert completed("cbr", "play", "r") == ["runs/a b", "runs/one", "runs/twc"]
    assert completed("cbr", "play", "no/such/") == []


def test_what_show_knows(completed, folder):
    assert completed("cbr", "show", "cbr_vq/") == ["cbr_vq/vq"]
    assert {"training", "training.pretrain"} & set(completed("cbr", "show", "trai")) == {"training"}
    assert "quantizer" in completed("cbr", "show", "quant")
    assert "sweep" in completed("cbr", "show", "sw")


def test_options_of_a_plugins_command(completed, folder):
    assert "--greedy" in completed("cbr", "play", "--gr")


def test_of_an_unknown_command_nothing_is_said(completed, folder):
    assert completed("cbr", "nonsense", "che") == ["check"]


EVERYTHING = """
import os, sys
from cbrcore.cli import main

os.environ["_CBR_COMPLETE"] = "complete_bash"
for words in EACH:
    os.environ |= {"COMP_WORDS": f"cbr {words} ", "COMP_CWORD": str(len(words.split()) + 1)}
    try:
        main()
    except SystemExit:
        heavy = {"torch", "textworld", "transformers", "jericho", "spacy", "torch_geometric"} & set(sys.modules)
        print(words, *heavy, file=sys.stderr)
"""


def test_completing_imports_nothing_heavy_whatever_the_command(folder):
    names = [*CORE, *(component.name for component in load_plugins().registry.of_kind("command"))]
    words = ["", *names, "cases show", "games add", "run --resume", "show"]
    code = EVERYTHING.replace("EACH", repr(words))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines() == words


@pytest.mark.skipif(BASH is None, reason="bash is not here")
def test_a_real_bash_completes(folder):
    """The script that `--install-completion` installs, in bash itself."""
    script = """
        eval "$(_CBR_COMPLETE=source_bash cbr)"
        complete -p cbr
        COMP_WORDS=(cbr run recipes/tables/t) COMP_CWORD=2
        _cbr_completion cbr
        echo "${COMPREPLY[@]}"
        COMP_WORDS=(cbr compare runs/one runs/a) COMP_CWORD=3
        _cbr_completion cbr
        echo "${#COMPREPLY[@]}: ${COMPREPLY[0]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(BASH), "--norc", "--noprofile", "-c", script]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    registered, tables, runs = done.stdout.splitlines()
    assert registered.startswith("complete -o default -F _cbr_completion cbr")
    assert tables == "recipes/tables/twc.yaml"
    assert runs == "1: runs/a b"
