"""The page in a browser: schemes, paper, phone; hover, legends, the save menu; names that want to be code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import vl_convert
from report_pages import parsed, shown, specs_of
from report_runs import played, plugins, recipe_text, results, rows, trained_run, write_run

from cbr_report.write import Written, write_report

SCHEMES = {"light": 1, "dark": 0}
INK = {"light": "rgb(27, 31, 36)", "dark": "rgb(232, 234, 237)", "print": "rgb(0, 0, 0)"}
FIGURES = {"results_intervals", "learning", "steps", "memory", "codes", "reuse", "gap", "versus_twc_in"}
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\"quoted\" and 'quoted' \\",
    "{{7*7}}",
    "datum['x']",
    "a lone \ud800 surrogate",
    "\u202eright to left\u202c\u200f",
    "long " * 2000,
)

PROBE = """
const table = document.getElementById("results");
const head = table.tHead.rows[0].cells[4];
const column = () => Array.from(table.tBodies[0].rows).map(row => row.cells[4].textContent);
const before = column();
head.querySelector("button").click();
const up = column(), sorted = head.getAttribute("aria-sort");
head.querySelector("button").click();
const down = column(), figures = {};
for (const svg of document.querySelectorAll("figure .chart svg.marks")) {
  const box = svg.getBoundingClientRect();
  figures[svg.closest("figure").id] = [box.width, box.height, svg.querySelectorAll("text").length];
}
const label = document.querySelector("#learning .role-legend-label text");
const key = table.querySelector("tbody td.key");
return {before, up, down, sorted, figures, label: label && getComputedStyle(label).fill,
  sticky: getComputedStyle(key).position};
"""
USE = """
const chart = document.querySelector("#learning .chart");
const at = (element, type) => {
  const box = element.getBoundingClientRect();
  const where = {bubbles: true, cancelable: true, view: window, clientX: box.x + box.width / 2,
    clientY: box.y + box.height / 2};
  element.dispatchEvent(type.startsWith("pointer") ? new PointerEvent(type, where) : new MouseEvent(type, where));
};
const lines = () => chart.querySelectorAll(".mark-line path").length;
const point = chart.querySelector(".mark-symbol.role-mark path");
for (const type of ["pointerover", "mouseover", "pointermove", "mousemove"]) at(point, type);
await pause(300);
const tip = document.getElementById("vg-tooltip-element");
const told = tip && tip.textContent;
const all = lines();
const entry = chart.querySelector(".role-legend-label text");
for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) at(entry, type);
await pause(500);
const saved = {};
for (const link of chart.querySelectorAll(".vega-actions a")) {
  at(link, "mousedown");
  await pause(1000);
  saved[link.textContent] = link.href.slice(0, 30);
}
return {told, all, one: lines(), saved};
"""


def few_runs(folder: Path, **changes: str) -> list[Path]:
    """Two agents, three seeds each."""
    return [
        write_run(
            folder / f"{variant}-{seed}",
            recipe_text(
                "twc.yaml", f"{variant}-level=easy-seed={seed}", *(f"{k}={v}" for k, v in changes.items())
            ),
            results(seed, {"in": played(10 + at + seed, 0.9), "out": played(12 + at, 0.8)}),
            rows(seed, memory="cbr" in variant),
        )
        for at, variant in enumerate(("bike", "bike_cbr"))
        for seed in (0, 1, 2)
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Written:
    folder = tmp_path_factory.mktemp("browser")
    return write_report(few_runs(folder), plugins(), out=folder / "page.html", decisions=False)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_works_in_a_browser(written, tmp_path, scheme, width):
    options = (f"--window-size={width},900", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}")
    found = shown(written.page, tmp_path, PROBE, *options)
    assert found["drawn"] == "yes"
    assert set(found["figures"]) >= FIGURES
    assert all(w > 200 and h > 60 and words > 4 for w, h, words in found["figures"].values()), found["figures"]
    assert found["label"] == INK[scheme]
    numbers = [float(cell.split(" ")[0]) for cell in found["up"]]
    assert found["sorted"] == "ascending"
    assert numbers == sorted(numbers)
    assert [float(cell.split(" ")[0]) for cell in found["down"]] == sorted(numbers, reverse=True)
    assert sorted(found["before"]) == sorted(found["up"])
    assert found["sticky"] == "sticky"  # the agent stays beside its numbers


def test_on_paper_figures_are_black_on_white(written, tmp_path):
    body = f"window.dispatchEvent(new Event('beforeprint')); await pause(500); {PROBE}"
    found = shown(written.page, tmp_path, body,
                  "--blink-settings=preferredColorScheme=0", "--window-size=1280,900")  # fmt: skip
    assert found["label"] == INK["print"]


def test_figures_tell_their_values_filter_and_are_saved(written, tmp_path):
    found = shown(written.page, tmp_path, USE, "--window-size=1280,900")
    assert "normalized score" in found["told"]
    assert "BiKE" in found["told"]
    assert (found["all"], found["one"]) == (2, 1)
    assert set(found["saved"]) == {"Save as SVG", "Save as PNG"}
    assert re.match("blob:|data:image/svg", found["saved"]["Save as SVG"])
    assert found["saved"]["Save as PNG"].startswith("data:image/png")


@pytest.fixture(scope="module")
def decided(here, cache_dir, tmp_path_factory) -> Written:
    """The report on a run that was really trained, with its decisions."""
    folder = tmp_path_factory.mktemp("decided")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBR_CACHE", str(cache_dir))
        return write_report([trained_run(here, folder / "run")], plugins(), out=folder / "page.html")


HEAT = {"light": ("#2e8bc0", "rgb(0, 0, 0)"), "dark": ("#2272b4", "rgb(255, 255, 255)")}
"""Colour of the heat, and of the numbers on it."""
DECIDED = """
const figures = {}, style = element => element && getComputedStyle(element);
for (const svg of document.querySelectorAll("figure .chart svg.marks")) {
  const box = svg.getBoundingClientRect();
  figures[svg.closest("figure").id] = [box.width, box.height, svg.querySelectorAll("text").length];
}
return {figures, number: style(document.querySelector("#decision_0_reuse .mark-text.role-mark text")).fill,
  lines: document.querySelectorAll(".lines").length};
"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_decisions_are_drawn_in_a_browser(decided, tmp_path, scheme, width):
    options = (f"--window-size={width},900", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}")
    found = shown(decided.page, tmp_path, DECIDED, *options)
    for id_ in ("decision_0_reuse", "decision_1_fallback"):
        w, h, words = found["figures"][id_]
        assert w > 300  # narrow pages scroll it
        assert h > 100
        assert words > 10
    assert found["number"] == HEAT[scheme][1]
    assert found["lines"] == 2


# Names that want to be code


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Written:
    """Every hostile name as an agent's, a game's and a metric's."""
    folder, runs = tmp_path_factory.mktemp("hostile"), []
    for number, name in enumerate(HOSTILE):
        run = few_runs(folder / str(number))[-1]
        text = (run / "recipe.yaml").read_text()
        text = re.sub(r"(?m)^name: .*$", lambda _, name=name: f"name: {ascii_yaml(name)}", text)
        text = re.sub(r"(?m)^  level: .*$", lambda _, name=name: f"  level: {ascii_yaml(name)}", text)
        (run / "recipe.yaml").write_text(text)
        write_metrics(run, name)
        runs.append(run)
    return write_report(runs, plugins(), out=folder / "page.html", decisions=False)


def ascii_yaml(text: str) -> str:
    import json

    return json.dumps(text)


def write_metrics(run: Path, name: str) -> None:
    import json

    lines = [json.dumps(row | {name: row["score"]}) for row in rows(0)]
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")


def test_hostile_names_are_text(hostile):
    text = hostile.page.read_text(encoding="utf-8")
    page = parsed(text)
    assert "img" not in page.tags
    assert page.tags.count("script") == len(specs_of(text)) + 4
    cells = {cell for table in page.tables.values() for row in table for cell in row}
    assert any("{{7*7}}" in cell for cell in cells)
    assert any(HOSTILE[0] in cell for cell in cells)
    assert not any(cell.strip() == "49" for cell in cells)


def test_every_figure_with_hostile_names_can_be_drawn(hostile):
    specs = specs_of(hostile.page.read_text(encoding="utf-8"))
    assert len(specs) > len(HOSTILE)
    for id_, spec in specs.items():
        assert vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]), id_


def test_hostile_names_do_nothing_in_a_browser(hostile, tmp_path):
    count = len(specs_of(hostile.page.read_text(encoding="utf-8")))
    body = """return {hacked: window.hacked === undefined,
    drawn_figures: document.querySelectorAll(".chart svg.marks").length,
    failed: Array.from(document.querySelectorAll(".chart")).map(c => c.textContent)
      .filter(t => t.startsWith("This figure"))};"""
    found = shown(hostile.page, tmp_path, body, "--window-size=1280,900")
    assert found["hacked"]
    assert found["failed"] == []
    assert found["drawn_figures"] == count
