"""The page itself: well-formed, complete, self-contained, equal to its Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields

import pytest
import vl_convert
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_pages import NASTY as TEXTS
from report_pages import parsed, rows_of, specs_of
from report_runs import played, plugins, recipe_text, results, twc_sweep, write_run

from cbr_cases.listing import CaseRow
from cbr_cases.page import page as cases_page
from cbr_report.charts import Style, described, lines
from cbr_report.page import is_reference, render
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


def hostile_page(text: str) -> str:
    """The report's page with this text wherever a text may stand; without Vega itself."""
    table = Table(
        "odd", text, (*text_columns(text), *columns([text])), ((text, "1"), (text, text)), note=f"n{text}",
        remarks=(text,),
    )  # fmt: skip
    rows = [{"panel": text, "series": text, "x": x, "value": x, "low": 0, "high": 2} for x in (0, 1)]
    styles = {text: Style(1)}
    chart = described(lines(rows, styles, x=text, y=text), text, styles)
    section = Section(
        "s", text, [table, Figure("f", text, chart, text, lines=(("plain", text),))], lead=f"l{text}"
    )
    data, problems = figure_data([section])
    assert problems == []
    return render(
        "report.html.j2", title=text, lead=f"l{text}", footer=f"f{text}", facts=[(text, text)], sections=[section],
        notes=[text], data=data, palettes=PALETTES, vega="", commands=[text],
    )  # fmt: skip


def same_elements(made: Callable[[str], str], text: str) -> None:
    """The text makes no element and no attribute: not a script, not an image, nothing."""
    harmless, hostile = parsed(made("words")), parsed(made(text))
    assert (hostile.tags, hostile.names, hostile.ids) == (harmless.tags, harmless.names, harmless.ids)


@pytest.mark.parametrize("cell", ["-3.5 ± 0.1 (3) [A]", "-3.5 [B, 2]", "-3.50 ± 0.10 (2 of 3 games)"])
def test_a_negative_number_with_a_mark_is_a_number(cell):
    table = Table("t", "t", columns(["n"]), ((cell,), ("-3.50 / -2.00",)))
    assert list(csv.reader(as_csv(table).splitlines())) == [["n"], [cell], ["'-3.50 / -2.00"]]


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("optimal", True),
        ("uniform random", True),
        ("uniform random (BiKE, Text)", True),
        ("optimal_reuse", False),
        ("uniform random walks", False),
    ],
)
def test_an_agent_is_no_reference_for_the_beginning_of_its_name(name, reference):
    assert is_reference(("Easy", name, "3.00")) is reference


def same_shape(text: str) -> None:
    """CSV and Markdown have as many rows and cells as ever, and no cell is a formula."""
    cells = ((text, "1.50 ± 0.20 (3)"), ("-2.00", text))
    table = Table("odd", text, text_columns(text, text), cells, note=text, remarks=(text, text))
    written = as_csv(table).encode().decode()
    read = list(csv.reader(io.StringIO(written, newline="")))
    assert [len(row) for row in read] == [2, 2, 2]
    assert (read[1][1], read[2][0]) == ("1.50 ± 0.20 (3)", "-2.00")
    for cell in (read[0][0], read[1][0], read[2][1]):
        assert not re.match(r"[=@\t\r]|[-+](?!\d+(\.\d+)?$)", cell), cell
    made = as_markdown(table).encode().decode()
    assert "\0" not in made
    head, empty, *rows = made.splitlines()[:5]
    assert (head[:3], empty) == ("## ", "")
    assert [len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows] == [3, 3, 3]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_stays_a_text(text):
    same_elements(hostile_page, text)
    same_elements(lambda each: cases_page(each, [case_row(each)], [[each, each]]), text)
    same_shape(text)


def case_row(text: str) -> CaseRow:
    texts = dict.fromkeys(("command", "template", "game"), text)
    return CaseRow(**{each.name: texts.get(each.name, 1) for each in fields(CaseRow)})


@given(st.text() | st.text(alphabet="<>&\"'=!-/|\\`{}%#$@+\n\r\t\0\udc9d\u202e\u2028 ab1"))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_stays_a_text(text):
    same_elements(lambda each: cases_page(each, [case_row(each)], [[each]]), text)
    same_shape(text)


def test_a_run_full_of_nasty_texts_has_a_page_with_our_scripts_alone(tmp_path):
    found = results(0, {text: played(10, 0.9) for text in ("in", "out", *TEXTS[:3])})
    facts = {text: {"max_score": -5, "sha256": TEXTS[0]} for text in TEXTS}
    found["protocol"]["games"] = dict.fromkeys(found["evaluation"], facts)
    found["protocol"]["handicaps"] = {text: text for text in TEXTS}
    found["protocol"]["duplicates"] = [TEXTS, TEXTS[::-1]]
    for split in found["evaluation"].values():
        split["games"] = {text: {"steps": 1.0, "norm_score": None} for text in TEXTS}
    rows = [
        {"episode": at, "env_steps": at, "game": text, text[:50]: at} for at, text in enumerate(TEXTS, start=1)
    ]
    run = write_run(tmp_path / "run", recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0"), found, rows)
    written = write_report([run], plugins(), decisions=False, figures=tmp_path / "figures")
    text = written.page.read_text()
    page = parsed(text)
    figures = text.count("data-chart>")
    assert page.tags.count("script") == figures + 4  # tables.js, palettes, Vega, figures.js
    assert page.tags.count("img") == page.tags.count("iframe") == 0
    assert not [name for name in page.names if name.startswith("on")]
    assert {file.stem for file in written.tables.glob("*.csv")} == set(page.tables)


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
