"""The page itself: well-formed, complete, self-contained, equal to its Markdown and CSV."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

import pytest
import vl_convert
from report_pages import parsed, rows_of, specs_of
from report_runs import played, plugins, recipe_text, results, twc_sweep, write_run

from cbr_report.charts import Style, described, lines
from cbr_report.page import render
from cbr_report.specs import figure_data, page_script
from cbr_report.tables import as_csv, as_markdown, columns, number, text_columns
from cbr_report.theme import PALETTES
from cbr_report.write import Written, write_report
from cbrcore import Figure, Section, Table

NASTY = "<u>\"&'|,\n</u>"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Written:
    """The report on a whole TWC sweep of two seeds."""
    folder = tmp_path_factory.mktemp("report")
    return write_report([twc_sweep(folder / "twc")], plugins(), out=folder / "out" / "page.html")


def test_the_page_is_well_formed_and_fetches_nothing(written):
    text = written.page.read_text()
    page = parsed(text)
    assert text.startswith("<!DOCTYPE html>")
    assert len(set(page.ids)) == len(page.ids)
    assert [link for link in page.links if not link.startswith(("#", "data:"))] == []
    ours = text[: text.index('<script id="vega">')] + text.split('<script id="vega">')[1].partition("</script>")[2]
    assert re.findall(r"https?:|//[a-z]|@import|url\(", ours.replace("</", "")) == []
    assert "default-src 'none'" in text
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_csv_and_markdown_hold_what_the_page_holds(written):
    page = parsed(written.page.read_text())
    markdown = written.markdown.read_text()
    assert set(page.tables) == {file.stem for file in written.tables.glob("*.csv")}
    assert {"paper_twc_in", "paper_twc_out", "paper_ood_gap", "results", "intervals"} <= set(page.tables)
    for name, shown in page.tables.items():
        with (written.tables / f"{name}.csv").open(newline="") as file:
            assert list(csv.reader(file)) == shown
        for row in shown:
            texts = (re.escape(cell.replace("|", "\\|")) for cell in row)
            cells = (rf"(?:\*\*)?{text}(?:\*\*)?" for text in texts)  # the best one is bold
            assert re.search(r"\| " + r" +\| ".join(cells) + r" +\|", markdown), (name, row)


FIGURES = ["learning", "steps", "memory", "codes", "reuse", "gap", "versus_twc_in", "versus_twc_out"]


def test_every_figure_is_there_with_a_title_and_a_text(written):
    text = written.page.read_text()
    specs = specs_of(text)
    assert set(FIGURES) <= set(specs)
    for id_, spec in specs.items():
        (figure,) = re.findall(rf'<figure class="card" id="{id_}" data-chart>.*?</figure>', text, re.DOTALL)
        ((title,),) = [re.findall(r"<h3>(.+?)</h3>", figure)]
        assert len(title) > 5
        assert len(spec["description"]) > 50
        assert "nan" not in spec["description"].lower()
        svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
        assert 'aria-label="' in svg
        assert "NaN" not in svg
    assert len(specs) == text.count('<figure class="card"')


def test_handicaps_versions_and_commands_are_there(written):
    page = parsed(written.page.read_text())
    assert page.tables["handicaps"][1] == ["commands", "full admissible list", "all"]
    assert ["torch", "2.13.0", "54"] in page.tables["versions"]
    text = written.page.read_text()
    assert "cbr sweep twc.yaml --out" in text
    assert "cbr report" in text


def test_names_are_escaped():
    table = Table(
        "odd", NASTY, (*text_columns(NASTY), *columns(["n"])), ((NASTY, "1"),), note=NASTY, remarks=(NASTY,)
    )
    rows = [{"panel": NASTY, "series": NASTY, "x": x, "value": x, "low": 0, "high": 2} for x in (0, 1)]
    styles = {NASTY: Style(1)}
    figure = Figure("f", NASTY, described(lines(rows, styles, x=NASTY, y=NASTY), NASTY, styles), NASTY)
    section = Section("s", NASTY, [table, figure], lead=NASTY)
    data, problems = figure_data([section])
    assert problems == []
    text = render(
        "report.html.j2", title=NASTY, lead=NASTY, footer=NASTY, facts=[(NASTY, NASTY)], sections=[section],
        notes=[NASTY], data=data, palettes=PALETTES, vega=page_script(), commands=[NASTY],
    )  # fmt: skip
    found = parsed(text)
    assert "u" not in found.tags
    assert found.tables["odd"] == [[NASTY, "n"], [NASTY, "1"]]
    assert rows_of(specs_of(text)["f"])[0]["series"] == NASTY
    assert vl_convert.vegalite_to_svg(data["f"], allowed_base_urls=[])
    assert list(csv.reader(as_csv(table).splitlines(keepends=True))) == [[NASTY, "n"], [NASTY, "1"]]
    assert "&'\\|, </u>" in as_markdown(table)  # one line, and no end of a cell


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (-0.001, "0.00"), (-1.5, "-1.50"), (2, "2.00")])
def test_numbers(value, text):
    assert number(value, 2) == text


def test_a_page_without_the_papers_file_has_no_columns_of_the_paper(tmp_path, monkeypatch):
    monkeypatch.setattr("cbr_paper.section.find_paper_file", lambda folders: None)
    run = write_run(
        tmp_path / "run",
        recipe_text("twc.yaml", "bike-level=easy-seed=0"),
        results(0, {"in": played(10, 1.0), "out": played(10, 1.0)}),
    )
    found = write_report([run], plugins())
    assert found.page == run / "report.html"
    page = parsed(found.page.read_text())
    assert not any(name.startswith("paper") for name in page.tables)
    assert "results" in page.tables


def test_importing_the_report_does_not_import_torch():
    code = "import sys, cbr_report.write; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
