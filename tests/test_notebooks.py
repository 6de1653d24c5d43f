"""The notebooks in docs run from top to bottom, in a kernel of their own, and show what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("altair")

PAGE = (Path(__file__).parents[1] / "docs" / "notebooks.md").read_text()
FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(path):
    """They would be those of one machine and one version; executing it makes them anew (docs/notebooks.md)."""
    for cell in nbformat.read(path, as_version=4).cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.fixture(scope="module")
def tour(cache_dir, tmp_path_factory):
    """The tour, executed; its code cells by what they begin with."""
    folder = tmp_path_factory.mktemp("tour")
    notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBR_CACHE", str(cache_dir))
        client.execute()
    assert (folder / "runs" / "tour" / "results.json").is_file()
    return {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def shown(tour, ends: str) -> str:
    """The HTML of the one cell whose source ends so."""
    (outputs,) = (outputs for source, outputs in tour.items() if source.rstrip().endswith(ends))
    return outputs[-1]["data"]["text/html"]


def test_it_trains_and_shows_the_run(tour):
    html = shown(tour, "\nrun")
    assert "quickstart (sampled)" in html
    assert "handicap: commands" in html


def test_it_plots(tour):
    assert "vega" in shown(tour, "in (steps, reuse, cases)))")


def test_it_shows_its_memory(tour):
    assert "cases</b>" in shown(tour, "run.memory")


def test_it_tells_why_it_did_that(tour):
    html = shown(tour, "earned[0] if earned else (reused or steps)[0]\nrun.why(step)")
    assert "retrieved case" in html
    assert "admissible action" in html
    assert "is the most relevant one" in html


def test_the_program_of_the_page_prints_what_the_page_says_but_for_figures(cache_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    (program,), (said,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "text"))
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()][-3:] == ["agent", "because", ">"]
    assert [line.split()[0] for line in said.splitlines()] == ["nearest", "agent", "because", ">"]
