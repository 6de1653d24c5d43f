"""The page docs/finding.md: its commands are run, one after the other, and it shows what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from report_runs import played, recipe_text, results, write_run

from cbr_find.run_rows import State

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "finding.md").read_text()


def test_every_command_of_the_page_works(tmp_path, monkeypatch, here):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["one", "two"]):
        recipe = recipe_text("twc.yaml", f"text_cbr-level=easy-seed={seed}")
        found = results(seed, {"in": played(8.0, 0.9), "out": played(9.0, 0.8)})
        found["training"] |= {"episodes": 500, "env_steps": 5000}
        write_run(tmp_path / "runs" / name, recipe, found)
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
             for line in block.splitlines()]  # fmt: skip
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line)[1:]
        done = here(*(["check", *words[1:]] if words[0] == "run" else words))  # runs take minutes
        assert done.returncode == 0, (line, done.stderr)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"runs", "mine.yaml", "my_table.yaml", "recipe.schema.json"}


def test_the_rows_that_it_shows_are_those_of_the_command(here, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cells = {tuple(re.split("  +", line.strip())) for line in here("recipes").stdout.splitlines()}
    (shown,) = re.findall(r"^```text\n(recipes  .*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    rows = [tuple(re.split("  +", line.strip())) for line in shown.splitlines() if line.startswith("recipes/")]
    assert len(rows) == 6
    assert [row for row in rows if row not in cells] == []


def test_every_state_is_told():
    table = PAGE.partition("| state | meaning |")[2].partition("\n\n")[0]
    assert [state for state in State if state not in table and state is not State.NEW] == []
