"""The page itself: well-formed, complete, self-contained, equal to its Markdown and CSV; it works in a browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cbrcore.report.figure import Figure
from cbrcore.report.make import Written, write_report
from cbrcore.report.maps import map_figure
from cbrcore.report.objects import ObjectMap, object_maps, object_table
from cbrcore.report.page import Page, Section, as_html
from cbrcore.report.runs import Group, group
from cbrcore.report.svg import Series, Style, drawing, line_panel, ticks
from cbrcore.report.tables import Table, as_csv, as_markdown, columns, number, text_columns
from report_runs import played, plugins, recipe_text, results, rows, trained_run, twc_sweep, write_run

VOID = {"meta", "link", "br", "img", "input"}
NASTY = "<u>\"&'|,\n</u>"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Written:
    """The report on a whole TWC sweep of two seeds."""
    folder = tmp_path_factory.mktemp("report")
    return write_report([twc_sweep(folder / "twc")], plugins(), out=folder / "out" / "page.html")


@dataclass
class Parsed(HTMLParser):
    """Checks that every element is closed in turn, and keeps tables, ids and attributes."""

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        self.links += [found[name] for name in ("href", "src", "xlink:href", "action") if name in found]
        if tag == "table":
            self.rows = self.tables.setdefault(found["id"], [])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def parsed(text: str) -> Parsed:
    parser = Parsed()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_is_well_formed_and_fetches_nothing(written):
    text = written.page.read_text()
    page = parsed(text)
    assert text.startswith("<!DOCTYPE html>")
    assert len(set(page.ids)) == len(page.ids)
    assert [link for link in page.links if not link.startswith(("#", "data:"))] == []
    assert re.findall(r"https?:|//[a-z]|@import|url\(", text.replace("</", "")) == []
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
            cells = (cell.replace("|", "\\|") for cell in row)
            assert re.search(r"\| " + r" +\| ".join(map(re.escape, cells)) + r" +\|", markdown), (name, row)


FIGURES = ["learning", "steps", "memory", "codes", "reuse", "gap", "versus_twc_in", "versus_twc_out"]


def test_every_figure_is_there_with_a_title_and_a_text(written):
    text = written.page.read_text()
    for id_ in FIGURES:
        (figure,) = re.findall(rf'<figure class="card" id="{id_}">.*?</figure>', text, re.DOTALL)
        assert re.search(r"<h3>.+?</h3>", figure)
        (svg,) = re.findall(r"<svg.*?</svg>", figure, re.DOTALL)
        title, words = re.findall(rf'<(?:title|desc) id="{id_}-[td]">(.*?)</', svg)
        assert f'role="img" aria-labelledby="{id_}-t {id_}-d"' in svg
        assert len(title) > 5
        assert len(words) > 50
        assert "nan" not in svg
    assert text.count("<svg") == text.count("<figure")


def test_handicaps_versions_and_commands_are_there(written):
    page = parsed(written.page.read_text())
    assert page.tables["handicaps"][1] == ["commands", "full admissible list", "all"]
    assert ["torch", "2.13.0", "54"] in page.tables["versions"]
    text = written.page.read_text()
    assert "cbr sweep twc.yaml --out" in text
    assert "cbr report" in text


def test_names_are_escaped(tmp_path):
    table = Table(
        "odd", NASTY, (*text_columns(NASTY), *columns(["n"])), ((NASTY, "1"),), note=NASTY, remarks=(NASTY,)
    )
    svg = drawing("f", NASTY, NASTY, [line_panel(NASTY, [_series(NASTY)], x_title=NASTY, y_title=NASTY)])
    figure = Figure("f", NASTY, svg, NASTY, ((NASTY, Style(0)),))
    page = Page(NASTY, NASTY, [(NASTY, NASTY)], [NASTY], [Section("s", NASTY, [table, figure])], [NASTY], NASTY)
    text = as_html(page)
    found = parsed(text)
    assert "u" not in found.tags
    assert found.tables["odd"] == [[NASTY, "n"], [NASTY, "1"]]
    assert list(csv.reader(as_csv(table).splitlines(keepends=True))) == [[NASTY, "n"], [NASTY, "1"]]
    assert "&'\\|, </u>" in as_markdown(table)  # one line, and no end of a cell


def _series(name: str) -> Series:
    return Series(name, Style(1), [0, 1], [0, 1], [0, 1], [0, 2])


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(0, 1, [0, 0.25, 0.5, 0.75, 1]), (0, 50, [0, 20, 40]), (-5, 5, [-5, -2.5, 0, 2.5, 5])],
)
def test_ticks_are_round_numbers(low, high, found):
    assert ticks(low, high) == found


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (-0.001, "0.00"), (-1.5, "-1.50"), (2, "2.00")])
def test_numbers(value, text):
    assert number(value, 2) == text


def test_a_page_without_the_papers_file_has_no_columns_of_the_paper(tmp_path, monkeypatch):
    monkeypatch.setattr("cbrcore.report.make.find_paper_file", lambda folders: None)
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
    code = "import sys, cbrcore.report.make; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The map of objects


def test_the_map_shows_every_object_in_the_colour_of_its_place():
    names = ("cup", "mug", "hat", "cap", "sock")
    places = {"cup": {"shelf"}, "mug": {"shelf"}, "hat": {"rack"}, "cap": {"rack"}, "sock": {"drawer"}}
    points = np.array([[0.0, 0], [1, 0], [5, 5], [6, 5], [3, 3]])
    accuracies = {"objects of the OUT games (2)": {"trained": 1.0, "chance": 0.25}}
    each = ObjectMap(
        Group((), "BiKE + CBR", "Easy"), names, points, places, frozenset({"cap", "sock"}), accuracies
    )
    figure = map_figure([each])
    assert [name for name, _ in figure.legend] == ["rack", "shelf", "drawer", "another place"]
    colours = {}
    for colour, title in re.findall(r'class="object (c\d)"[^>]*><title>(\w+):', figure.svg):
        colours[title] = colour
    assert colours == {"cup": "c1", "mug": "c1", "hat": "c0", "cap": "c0", "sock": "c2"}
    assert (figure.svg.count("<circle"), figure.svg.count("<polygon")) == (3, 2)
    (table,) = object_table([each])
    assert table.rows == (("Easy", "BiKE + CBR", "objects of the OUT games (2)", "1.00", "0.25"),)


def test_a_run_whose_checkpoint_is_gone_is_noted(tmp_path):
    text = recipe_text("entity.yaml", "bike_cbr_entity-level=easy-seed=0")
    run = write_run(tmp_path / "run", text, results(0, {"in": played(1, 1), "out": played(1, 1)}))
    written = write_report([run], plugins())
    for what, note in zip(("no decisions", "no map of the objects"), written.notes, strict=True):
        assert what in note
        assert "no checkpoint" in note


@pytest.mark.slow
def test_the_objects_of_a_real_run(games_dir, cbr, tmp_path):
    """Trained for a pass; the map and the accuracies come from its checkpoint."""
    out = tmp_path / "run"
    recipe = Path(__file__).parents[1] / "recipes" / "smoke" / "cbr_only_twc.yaml"
    parts = ["context_encoder.use=cbr_entity/entity", "quantizer.use=cbr_continuous/continuous"]
    sets = [*parts, "run.episodes=1", "training.pretrain.episodes=0"]
    done = cbr("run", recipe, *(word for each in sets for word in ("--set", each)), "--out", out)
    assert done.returncode == 0, done.stderr
    done = cbr("report", out, "--no-decisions")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = parsed((out / "report.html").read_text())
    assert "objects_map" in page.ids
    titles, seen, unseen = page.tables["objects"]
    assert titles[3:] == [
        "trained",
        "untrained (fresh weights)",
        "frozen text encoding",
        "chance",
        "best possible",
    ]
    for row in (seen, unseen):
        accuracies = [float(cell) for cell in row[3:]]
        assert all(0 <= accuracy <= 1 for accuracy in accuracies)
        assert max(accuracies) == accuracies[-1] > accuracies[-2]


def test_runs_without_such_an_encoder_have_no_map(tmp_path):
    text = recipe_text("twc.yaml", "bike_cbr-level=easy-seed=0")
    run = write_run(tmp_path / "run", text, results(0, {"in": played(1, 1)}), rows(0))
    notes: list[str] = []
    from cbrcore.report.collect import collect

    assert object_maps(group(collect([run]).runs), plugins(), notes) == []
    assert notes == []


# In a browser

PROBE_ERRORS = """<script>
window.problems = [];
window.addEventListener("error", event => window.problems.push(String(event.message)));
document.addEventListener("securitypolicyviolation", event => window.problems.push(event.blockedURI));
console.error = console.warn = (...words) => window.problems.push(words.join(" "));
</script>"""

PROBE = """<script>
window.addEventListener("load", function () {
  const table = document.getElementById("results");
  const head = table.tHead.rows[0].cells[3];
  const column = () => Array.from(table.tBodies[0].rows).map(row => row.cells[3].textContent);
  const before = column();
  head.querySelector("button").click();
  const up = column(), sorted = head.getAttribute("aria-sort");
  head.querySelector("button").click();
  const down = column();
  const figures = {};
  for (const svg of document.querySelectorAll("figure svg")) {
    const box = svg.getBoundingClientRect();
    figures[svg.closest("figure").id] = [box.width, box.height, svg.querySelectorAll("text").length];
  }
  const line = document.querySelector(".line");
  const style = function (name) {
    const found = document.querySelector(name);
    return found && [getComputedStyle(found).fill, getComputedStyle(found).stroke];
  };
  const found = {before, up, down, sorted, figures, problems: window.problems,
    stroke: getComputedStyle(line).stroke, heat: style(".heat"), number: style(".heat-value"),
    chosen: style(".chosen"), lines: document.querySelectorAll(".lines").length,
    wide: document.documentElement.scrollWidth, window: window.innerWidth};
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.appendChild(out);
});
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is here (looked for {', '.join(BROWSERS)})")
    return found


def shown(browser: str, written: Written, folder: Path, *options: str) -> dict[str, Any]:
    """What the page is like in a browser, after the tables were sorted."""
    text = written.page.read_text()
    page = folder / "page.html"
    page.write_text(text.replace("<head>", f"<head>{PROBE_ERRORS}", 1).replace("</body>", f"{PROBE}</body>", 1))
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            *options, "--virtual-time-budget=2000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    (probe,) = re.findall(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    found: dict[str, Any] = json.loads(probe.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert found["problems"] == []
    assert found["wide"] <= found["window"]  # wide tables scroll in their own frame
    return found


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_works_in_a_browser(written, browser, tmp_path, width):
    found = shown(browser, written, tmp_path, f"--window-size={width},900")
    assert set(FIGURES) <= set(found["figures"])
    assert all(w > 200 and h > 60 and words > 4 for w, h, words in found["figures"].values())
    numbers = [float(cell.split(" ")[0]) for cell in found["up"]]
    assert found["sorted"] == "ascending"
    assert numbers == sorted(numbers)
    assert [float(cell.split(" ")[0]) for cell in found["down"]] == sorted(numbers, reverse=True)
    assert sorted(found["before"]) == sorted(found["up"])
    assert found["before"] != found["up"]
    assert found["stroke"].startswith("rgb(")


@pytest.fixture(scope="module")
def decided(here, cache_dir, tmp_path_factory) -> Written:
    """The report on a run that was really trained, with its decisions."""
    folder = tmp_path_factory.mktemp("decided")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBR_CACHE", str(cache_dir))
        return write_report([trained_run(here, folder / "run")], plugins(), out=folder / "page.html")


SCHEMES = {"light": ("rgb(46, 139, 192)", "rgb(0, 0, 0)"), "dark": ("rgb(34, 114, 180)", "rgb(255, 255, 255)")}
"""Colour of the heat, and of the numbers on it."""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_the_decisions_are_drawn_in_a_browser(decided, browser, tmp_path, scheme, width):
    wanted = f"--blink-settings=preferredColorScheme={['dark', 'light'].index(scheme)}"
    found = shown(browser, decided, tmp_path, wanted, f"--window-size={width},900")
    for id_ in ("decision_0_reuse", "decision_1_fallback"):
        w, h, words = found["figures"][id_]
        assert w > 500  # narrow pages scroll it
        assert h > 100
        assert words > 10
    assert (found["heat"][0], found["number"][0]) == SCHEMES[scheme]
    assert found["chosen"][0] == "none"
    assert found["chosen"][1].startswith("rgb(")
    assert found["lines"] == 2
