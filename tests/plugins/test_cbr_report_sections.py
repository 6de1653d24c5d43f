"""Sections of plugins: they appear, and one that fails is named while the rest is written."""

from __future__ import annotations

import subprocess
import sys

import pytest
from report_pages import parsed, specs_of
from report_runs import played, recipe_text, results, rows, write_run

from cbr_report.write import write_report
from cbrcore.plugins import load_plugins

SECTION = """
from cbrcore import Column, Section, Table, hookimpl

@hookimpl
def register_report_sections(registry):
    registry.add("mine", factory="NAME:mine", summary="mine")

def mine(runs):
    BODY
"""
GOOD = "return Section('about-mine', 'Mine', [Table('mine', 'Mine', (Column('N'),), ((str(len(runs)),),))])"


@pytest.fixture
def run(tmp_path):
    found = results(0, {"in": played(10, 0.9), "out": played(12, 0.8)})
    metrics = [row | {"my_own metric": 0.5} for row in rows(0)]
    return write_run(tmp_path / "run", recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0"), found, metrics)


def source(name: str, body: str) -> str:
    return SECTION.replace("NAME", name).replace("BODY", body)


def test_a_section_of_a_loose_file_appears(run, tmp_path, cbr):
    (tmp_path / "loose.py").write_text(source("loose", GOOD))
    done = cbr("report", run, "--no-decisions", "--plugin", tmp_path / "loose.py")
    assert done.returncode == 0, done.stderr
    assert parsed((run / "report.html").read_text()).tables["mine"] == [["N"], ["1"]]


def test_a_section_of_an_installed_package_appears(run, site):
    site.plugin("installed_one", source("installed_one", GOOD))
    written = write_report([run], load_plugins(), decisions=False)
    assert parsed(written.page.read_text()).tables["mine"] == [["N"], ["1"]]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise ZeroDivisionError('oh')", "ZeroDivisionError: oh"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("return 3", "gave int, not a cbrcore.Section"),
        ("return Section('a', 'a', [3])", "a part is int"),
        ("return Section('a b', 'a', [])", "must be letters"),
        ("return Section('a', 'a', [Table('t', 't', (Column('N'),), (('1', '2'),))])", "every row needs 1 cells"),
    ],
)
def test_a_section_that_fails_is_named_and_the_rest_is_written(run, site, cbr, body, says):
    site.plugin("broken_one", source("broken_one", body), distribution="broken-dist")
    done = cbr("report", run, "--no-decisions")
    assert done.returncode == 0, done.stderr
    assert "broken-dist" in done.stderr
    assert says in done.stderr
    text = (run / "report.html").read_text()
    assert "broken-dist" in text.partition('<section id="notes">')[2]
    assert {"results", "protocol"} <= set(parsed(text).tables)


def test_a_section_that_cannot_be_imported_is_named(run, site, cbr):
    site.plugin("gone_one", source("not_there", GOOD), distribution="gone-dist")
    done = cbr("report", run, "--no-decisions")
    assert done.returncode == 0, done.stderr
    assert "gone-dist" in done.stderr
    assert "results" in parsed((run / "report.html").read_text()).tables


def test_without_cbr_paper_its_section_is_left_out(run, monkeypatch):
    everything = [info.name for info in load_plugins().plugins]
    monkeypatch.setenv("CBR_LOAD_PLUGINS", ",".join(name for name in everything if name != "cbr_paper"))
    written = write_report([run], load_plugins(), decisions=False)
    text = written.page.read_text()
    assert "Beside the paper" not in text
    assert "results" in parsed(text).tables


def test_a_metric_of_a_part_is_a_figure_under_its_own_name(run):
    text = write_report([run], load_plugins(), decisions=False).page.read_text()
    (id_,) = (id_ for id_ in specs_of(text) if id_.startswith("metric_"))
    assert id_.endswith("my_own_metric")
    assert "<h3>my_own metric over training</h3>" in text


WITHOUT = """
import sys, importlib.abc
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("altair", "vl_convert"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Block())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in ("altair", "vl_convert") else found(name, *a)
sys.argv = ["cbr", "report", RUN, "--no-decisions"]
from cbrcore.cli import main
main()
"""


def test_without_altair_the_tables_are_written(run):
    code = WITHOUT.replace("RUN", repr(str(run)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install 'cbr-textrl[report]'" in done.stderr
    text = (run / "report.html").read_text()
    assert "<figure" not in text
    assert {"results", "intervals"} <= set(parsed(text).tables)


def test_runs_of_other_budgets_and_baselines_are_marked_and_kept(tmp_path):
    runs = []
    for at, (variant, change) in enumerate((("bike", "run.episodes=7"), ("bike_cbr", "run.episodes=9"))):
        found = results(0, {"in": played(10, 0.9), "out": played(12, 0.8)})
        found["evaluation"]["in"]["random"]["steps"]["mean"] += at
        text = recipe_text("twc.yaml", f"{variant}-level=easy-seed=0", change)
        runs.append(write_run(tmp_path / variant, text, found))
    written = write_report(runs, load_plugins(), out=tmp_path / "page.html", decisions=False)
    text = written.page.read_text()
    head, *cells = parsed(text).tables["results"]
    assert "Training" in head
    assert {row[2] for row in cells} >= {"7 passes", "9 passes"}
    assert sum(row[1].startswith("uniform random (") for row in cells) == 2
    assert "not trained alike" in text
    assert "did not play alike" in text
    square = parsed(text).tables["improvement_0"]
    assert {cell for row in square[1:] for cell in row[1:]} == {"–"}
    assert {row[-1] for row in parsed(text).tables["intervals"][1:]} == {"–"}


def test_the_overview_imports_nothing_of_the_report():
    for words in (["--help"], ["list-plugins"]):
        code = (
            f"import sys; sys.argv = ['cbr', *{words}]\nfrom cbrcore.cli import main\ntry: main()\n"
            "except SystemExit: pass\n"
            "sys.stderr.write(str({'altair', 'jinja2', 'sklearn'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stderr.endswith("set()"), done.stderr
