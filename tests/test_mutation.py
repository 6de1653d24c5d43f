"""The mutation run itself: what it mutates and what not, whom it asks, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="the tool of the mutation run is in the extra 'dev'")

import yaml
from mutants.places import places, sample
from mutants.which_tests import files_for, modules

ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).parent / "mutants" / "worker.py"


def families(source: str) -> list[str]:
    return [place.family for place in places("m.py", f"{source}\n")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = a < b", ["ReplaceComparisonOperator"]),
        ("y = a + 1", ["ReplaceBinaryOperator", "NumberReplacer"]),
        ("if a: b()", ["AddNot", "DropStatement"]),
        ("def f(s):\n    s.x = y\n    s.x += y\n    s[y] = y\n    del s\n    raise y", ["DropStatement"] * 5),
        ("y = a\ny, z = a\ny: int = a", []),
        ("class A:\n    def __init__(self):\n        self.x = y\n        self.z()", ["DropStatement"]),
    ],
)
def test_what_is_mutated(source, expected):
    assert families(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: Annotated[int, Field(ge=1)]) -> int | None: ...",
        "class A:\n    x: int | None\n    y: Annotated[int, Field(ge=1)]",
        "Alias = dict[str, int] | None",
        "@cache(1)\ndef f(): ...",
        "def __repr__(self):\n    return f'{1 + 1}'",
        "def f():\n    assert x is not None",
        "if TYPE_CHECKING:\n    x()",
        "class P(Protocol):\n    def f(self, x=1): ...",
        "log.info('%d', 1 + 1)",
        "x = typer.Option(1, '--x')",
        "x = f(summary='a' + 'b')",
        "def f(a, *, b, **more): ...",
        "from __future__ import annotations",
    ],
)
def test_what_is_left_out(source):
    assert families(source) == []


def test_each_mutant_is_another_program_and_a_larger_sample_begins_with_the_smaller_one():
    chosen = ["cbrcore/rng.py", "cbrcore/freshness.py"]
    small, large = sample(ROOT, chosen, 5, seed=0), sample(ROOT, chosen, 12, seed=0)
    assert large[:5] == small
    assert len({mutant.id for mutant in large}) == 12
    for mutant in large:
        assert mutant.code != (ROOT / mutant.path).read_text(encoding="utf-8")
        assert mutant.was != mutant.becomes
        compile(mutant.code, mutant.path, "exec")
    assert sample(ROOT, chosen, 5, seed=1) != small


def test_every_module_has_tests_and_every_one_of_them_is_there():
    for module in modules(ROOT):
        files = files_for(ROOT, module)
        assert files or not places(module, (ROOT / module).read_text(encoding="utf-8")), module
        assert [name for name in files if not (ROOT / name).is_file()] == []


def test_accepted_survivors_are_those_of_the_code_as_it_is():
    for entry in yaml.safe_load((WORKER.parent / "accepted.yaml").read_text(encoding="utf-8")) or []:
        assert set(entry) == {"file", "function", "was", "becomes", "equivalent", "reason"}
        lines = " ".join(line.strip() for line in (ROOT / entry["file"]).read_text(encoding="utf-8").splitlines())
        assert entry["was"] in lines


def test_a_worker_tells_killed_from_survived_and_puts_the_source_back(tmp_path):
    """Also where a mutant never ends, and where two mutants have the same size and second."""
    source, test = tmp_path / "subject.py", tmp_path / "test_subject.py"
    source.write_text("def f():\n    return 1\n")
    test.write_text("from subject import f\n\n\ndef test_f():\n    assert f() > 0\n")
    codes = [
        "",
        source.read_text().replace("1", "2"),
        source.read_text().replace("1", "0"),
        "while True: pass\n",
        "",
    ]
    requests = [
        {
            "path": code and "subject.py",
            "code": code,
            "files": [test.name],
            "limit": 3.0 if "while" in code else 60.0,
        }
        for code in codes
    ]
    done = subprocess.run(
        [sys.executable, WORKER],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "MUTANTS_TMP": str(tmp_path / "tmp"),
             "PYTHONDONTWRITEBYTECODE": "1"},
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    outcomes = [json.loads(line)["outcome"] for line in done.stdout.splitlines()]
    assert outcomes == ["survived", "survived", "killed", "timeout", "survived"]
    assert source.read_text() == "def f():\n    return 1\n"
