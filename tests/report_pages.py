"""Pages of the report for tests: read without a browser, and asked in one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

VOID = {"meta", "link", "br", "img", "input"}
NASTY = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' onclick='alert(1)",
    "]]><!-- <style>*{display:none}",
    "&lt;b&gt; &amp;",
    "</textarea></title></pre>",
    "{{ 7 * 7 }}{% for x in () %}",
    "{# a comment #}",
    'datum.label + \'\\\\\' + "\\""',
    "split(datum['x'], ',')[0]",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1:A9)",
    "\t=1+1",
    "a | b || c",
    "a\nb\r\nc\rd\u2028e\u2029f\x85g\vh\fi",
    "`code` **bold** _it_ [a](javascript:alert(1)) $MATH$ \\\\|",
    "# title",
    "nul \0 bell \a escape \x1b[31m",
    "half \udc9d\ud83d",
    "\u202eright to left\u202c \u200f",
    "\ufeff\u200b",
    "x" * 10_000,
    "word " * 2_000,
    "",
    " ",
    "constructor",
    "__proto__",
]
"""Texts that a game, a recipe or a case may have, and that shall be shown as texts."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@dataclass
class Parsed(HTMLParser):
    """Checks that every element is closed in turn, and keeps tables, ids and attributes."""

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.names += [name for name, _ in attrs]
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


def specs_of(text: str) -> dict[str, dict[str, Any]]:
    """id -> specification of every figure of a page."""
    found = re.findall(
        r'<figure class="card" id="([\w-]+)" data-chart>.*?<script type="application/json">(.*?)</script>',
        text,
        re.DOTALL,
    )
    return {id_: json.loads(spec) for id_, spec in found}


def rows_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The data of a specification that holds all of it in one place."""
    rows: list[dict[str, Any]] = spec["data"]["values"]
    return rows


# In a browser

ADVICE = (
    "WARN Channel fillOpacity should not be used with an unsorted discrete field",
    "WARN Detected faceted independent scales that union domain",
)
"""What Vega-Lite's compiler says of charts that are as they shall be; any other warning or error is a problem."""

ERRORS = """<script>
window.problems = [];
window.addEventListener("error", event => window.problems.push(String(event.message)));
window.addEventListener("unhandledrejection", event => window.problems.push(String(event.reason)));
document.addEventListener("securitypolicyviolation", event => window.problems.push(event.blockedURI));
console.error = console.warn = (...words) => window.problems.push(words.join(" "));
</script>"""

PROBE = """<script>
(async function () {
  const pause = time => new Promise(done => setTimeout(done, time));
  for (let turn = 0; turn < 200 && !document.body.dataset.drawn; turn += 1) await pause(50);
  const found = {drawn: document.body.dataset.drawn, wide: document.documentElement.scrollWidth,
    window: window.innerWidth};
  try { Object.assign(found, await (async function () { BODY })()); }
  catch (error) { window.problems.push(String(error)); }
  found.problems = window.problems;
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.appendChild(out);
})();
</script>"""


def find_browser() -> str:
    """A browser's program; without one the test is skipped."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is here (looked for {', '.join(BROWSERS)})")
    return found


def shown(page: Path, folder: Path, body: str, *options: str, address: str | None = None) -> dict[str, Any]:
    """What the page tells in a browser, and `body`: JavaScript that returns an object, run when all is drawn.

    Args:
        address: of `folder` where it is served; None: the page is read as a file.
    """
    text, copy = page.read_text(), folder / "page.html"
    text = text.replace("<head>", f"<head>{ERRORS}", 1)
    before, after = text.rsplit("</body>", 1)
    copy.write_text(f"{before}{PROBE.replace('BODY', body)}</body>{after}")
    done = subprocess.run(
        [
            find_browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            *options, "--virtual-time-budget=20000", "--dump-dom",
            copy.as_uri() if address is None else f"{address}/{copy.name}",
        ],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    probes = re.findall(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert probes, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(unescape(probes[-1]))
    problems = [words for words in found["problems"] if not words.startswith(ADVICE)]
    assert problems == [], problems
    assert found["wide"] <= found["window"]  # wide tables scroll in their own frame
    return found
