"""A run's cases as one page that needs nothing else: a table to sort and to search, each situation below it.

The table is plain HTML, so that it can be read without scripts too; the script only sorts and filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from cbr_cases.listing import CaseRow, Listed, shown, situation_lines
from cbrcore.errors import CbrError
from cbrcore.runs.folder import write_atomically

COLUMNS = {
    "id": "case",
    "command": "command",
    "template": "template",
    "game": "game",
    "episode": "episode",
    "step": "step",
    "reward": "reward",
    "rewarded": "rewarded",
    "reused": "reused",
    "success": "success",
    "age": "age",
}
"""Field of a row -> the column's title."""

EXPLAINED = (
    "game, episode, step and reward: of the step that was retained first. rewarded: how often it was retained with"
    " a reward. reused: how often it was reused while training; success: the share of these that earned a reward."
    " age: environment steps since it was last retained. Click a title to sort, a number to see the situation of"
    " the case."
)

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25em .6em; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
th { cursor: pointer; border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff; }
tr:nth-child(even) td { background: #f4f4f4; } input { font: inherit; padding: .3em; width: 24em; }
section { margin-top: 2em; } pre { background: #f4f4f4; padding: .6em; overflow-x: auto; }
section:target pre { outline: 2px solid #48c; } .quiet { color: #666; }
"""

SCRIPT = """
"use strict";
const body = document.querySelector("tbody"), rows = [...body.rows], count = document.getElementById("count");
document.getElementById("search").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
    shown += !row.hidden;
  }
  count.textContent = shown + " of " + rows.length;
});
document.querySelectorAll("th").forEach((head, column) => head.addEventListener("click", () => {
  const down = head.dataset.order !== "down", value = row => row.cells[column].dataset.value;
  document.querySelectorAll("th").forEach(other => delete other.dataset.order);
  head.dataset.order = down ? "down" : "up";
  const numeric = head.classList.contains("n");
  rows.sort((a, b) => numeric ? value(a) - value(b) : value(a).localeCompare(value(b)));
  if (down && numeric || !down && !numeric) rows.reverse();
  body.append(...rows);
}));
"""


def write_page(name: str, listed: Listed, rows: Sequence[CaseRow], to: Path) -> None:
    """Write the page about these rows of a run's cases.

    Raises:
        CbrError: `to` is a folder.
    """
    if to.is_dir():
        raise CbrError(f"{to} is a folder", hint=f"name a file: {to / 'cases.html'}")
    made_of = {
        case.id: (situation, case.seeds)
        for case, situation in zip(listed.stored.cases, listed.stored.situations, strict=True)
    }
    to.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(to, page(name, rows, [situation_lines(*made_of[row.id]) for row in rows]))


def page(name: str, rows: Sequence[CaseRow], situations: Sequence[Sequence[str]]) -> str:
    """The page about cases [m] with their situations [m]."""
    heads = "".join(f"<th{_numeric(field)}>{escape(title)}</th>" for field, title in COLUMNS.items())
    sections = map(_section, rows, situations)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}: cases</title>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>{STYLE}</style></head><body>
<h1>{escape(name)}: {len(rows)} cases</h1>
<p class="quiet">{escape(EXPLAINED)}</p>
<p><input id="search" type="search" placeholder="search" aria-label="search">
<span id="count" class="quiet">{len(rows)} of {len(rows)}</span></p>
<table><thead><tr>{heads}</tr></thead>
<tbody>
{"".join(map(_row, rows))}</tbody></table>
{"".join(sections)}<script>{SCRIPT}</script></body></html>
"""


def _row(row: CaseRow) -> str:
    return f"<tr>{''.join(_cell(row, field) for field in COLUMNS)}</tr>\n"


def _cell(row: CaseRow, field: str) -> str:
    value = getattr(row, field)
    text = escape(shown(value))
    if field == "id":
        text = f'<a href="#case-{row.id}">{text}</a>'
    sortable = -1 if value is None else value
    return f'<td{_numeric(field)} data-value="{escape(str(sortable))}">{text}</td>'


def _numeric(field: str) -> str:
    return "" if field in ("command", "template", "game") else ' class="n"'


def _section(row: CaseRow, situation: Sequence[str]) -> str:
    text = "\n".join(situation) or "(its situation was not stored)"
    return (
        f'<section id="case-{row.id}"><h2>case {row.id}: {escape(row.command)}</h2>\n'
        f"<pre>{escape(text)}</pre></section>\n"
    )
