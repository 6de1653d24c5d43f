"""The page's style sheet and script.

Colours are Okabe and Ito's, which people with any colour vision can tell apart; a little lighter on a dark page.
"""

CSS = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1b1f24; --soft: #5b6470; --line: #dfe3e8; --accent: #0072b2;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9; --c6: #5b6470;
  --c7: #a8a000; --heat: #2e8bc0; --on-heat: #000000;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1c2026; --ink: #e8eaed; --soft: #a3acb8; --line: #343a43; --accent: #56b4e9;
    --c0: #3b9be0; --c1: #e8762c; --c2: #1fbf92; --c3: #d98fb8; --c4: #e69f00; --c5: #7cc7f2; --c6: #a3acb8;
    --c7: #f0e442; --heat: #2272b4; --on-heat: #ffffff;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 4rem; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.75rem; }
h1 { font-size: 2.1rem; line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 0.4rem; }
h2 { font-size: 1.4rem; letter-spacing: -0.01em; margin: 3rem 0 1rem; }
h3 { font-size: 1.05rem; margin: 0 0 0.6rem; }
p { margin: 0 0 0.75rem; max-width: 72ch; }
a { color: var(--accent); }
.lead, .note, figcaption, footer { color: var(--soft); }
.note, figcaption { font-size: 0.875rem; margin: 0.75rem 0 0; max-width: 90ch; }
.facts { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 1.5rem 0 0; padding: 0; list-style: none; }
.facts li { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.6rem 1rem; }
.facts b { display: block; font-size: 1.35rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.facts span { color: var(--soft); font-size: 0.8rem; }
nav { position: sticky; top: 0; z-index: 2; background: var(--page); border-bottom: 1px solid var(--line);
  margin-top: 1.75rem; }
nav ul { max-width: 76rem; margin: 0 auto; padding: 0.7rem 1.25rem; list-style: none; display: flex; gap: 1.25rem;
  flex-wrap: wrap; font-size: 0.9rem; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.1rem 1.25rem;
  margin: 0 0 1.25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: 0.4rem 0.65rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap;
  vertical-align: top; }
th { vertical-align: bottom; font-weight: 600; white-space: normal; min-width: 4.5em; }
table.wide { font-size: 0.78rem; }
table.wide th, table.wide td { padding: 0.35rem 0.4rem; min-width: 0; }
.text { text-align: left; }
.scroll { position: relative; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--card); }
td.text.long { white-space: normal; min-width: 14rem; }
td.paper { color: var(--soft); }
td.ours { font-weight: 600; }
tbody tr:hover { background: color-mix(in srgb, var(--accent) 8%, transparent); }
tbody tr.aside td { font-weight: 400; font-style: italic; color: var(--soft); }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; }
th button::after { content: " ↕"; color: var(--line); }
th[aria-sort=ascending] button::after { content: " ↑"; color: var(--accent); }
th[aria-sort=descending] button::after { content: " ↓"; color: var(--accent); }
button:focus-visible, a:focus-visible, summary:focus-visible { outline: 2px solid var(--accent);
  outline-offset: 2px; }
.remarks { color: var(--soft); font-size: 0.85rem; margin: 0.5rem 0 0; padding-left: 1.1rem; }
.problems { border-left: 4px solid var(--c1); }
.problems ul { margin: 0; padding-left: 1.1rem; }
figure { margin: 0 0 1.25rem; }
figure[id^=decision] svg { min-width: 34rem; }
svg { display: block; width: 100%; height: auto; font-size: 11px; }
svg text { fill: currentColor; }
.panel-title { font-weight: 600; font-size: 12.5px; }
.tick, .value { fill: var(--soft); font-size: 10.5px; }
.axis-title { fill: var(--soft); font-size: 11px; }
.name { fill: var(--soft); font-size: 9px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.whisker { stroke: var(--ink); stroke-width: 1.25; opacity: 0.65; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.dashed { stroke-dasharray: 6 4; }
.band { fill: var(--c); opacity: 0.14; }
.bar, .point, .object { fill: var(--c); }
.bar.dashed { fill-opacity: 0.35; stroke: var(--c); }
.point.dashed { fill: var(--card); stroke: var(--c); stroke-width: 2; }
.object { stroke: var(--card); stroke-width: 0.75; }
.cell, .above, .chosen { fill: none; stroke: var(--line); stroke-width: 1; }
.above { stroke: var(--ink); stroke-width: 1.5; } .chosen { stroke: var(--c1); stroke-width: 4; }
.heat { fill: var(--heat); } .heat-label { font-size: 11.5px; }
.heat-value { fill: var(--on-heat); font-size: 12px; font-variant-numeric: tabular-nums; }
.sign { fill: var(--on-heat); stroke: var(--on-heat); stroke-width: 1.75; }
.tau { stroke: var(--ink); stroke-width: 2; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: 0.3rem 1.1rem; list-style: none; padding: 0; margin: 0 0 0.6rem;
  font-size: 0.85rem; }
.legend li { display: flex; align-items: center; gap: 0.45rem; }
.legend i { width: 22px; border-top: 3px solid var(--c); }
.legend i.dashed { border-top-style: dashed; }
pre { overflow-x: auto; font-size: 0.8rem; line-height: 1.45; margin: 0; padding: 0.9rem 1rem; border-radius: 8px;
  border: 1px solid var(--line); background: var(--page); }
.lines { margin-top: 0.9rem; }
.line-quiet { color: var(--soft); }
.line-chosen, .line-reuse, .line-agent, .line-good { font-weight: 700; }
summary { cursor: pointer; font-weight: 600; }
details[open] summary { margin-bottom: 0.75rem; }
footer { font-size: 0.85rem; padding: 2rem 1.25rem 3rem; }
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb; --accent: #000;
    --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9; --c6: #444;
    --c7: #a8a000; --heat: #2e8bc0; --on-heat: #000000; }
  nav { display: none; }
  .card { break-inside: avoid; border-color: #bbb; }
  .scroll { overflow: visible; }
  figure[id^=decision] svg { min-width: 0; }
  .lines { white-space: pre-wrap; font-size: 0.65rem; }
  table { font-size: 0.65rem; } th, td { padding: 0.2rem 0.3rem; white-space: normal; }
  th button::after { content: ""; }
}
"""

JS = """
"use strict";
function key(text) {
  const found = /^\\[?\\s*([-+]?\\d+(\\.\\d+)?)/.exec(text);
  return found ? parseFloat(found[1]) : null;
}
function compare(a, b, numbers) {
  if (!numbers) return a.localeCompare(b);
  const left = key(a), right = key(b);
  if (left === null || right === null) return (left === null) - (right === null);
  return left - right;
}
function sort(th) {
  const body = th.closest("table").tBodies[0];
  const up = th.getAttribute("aria-sort") !== "ascending";
  const numbers = !th.classList.contains("text");
  const at = th.cellIndex;
  const rows = Array.from(body.rows).map((row, place) => ({row, place, text: row.cells[at].textContent}));
  rows.sort(function (a, b) {
    const missing = numbers && (key(a.text) === null || key(b.text) === null);
    const order = compare(a.text, b.text, numbers);
    return (up || missing ? order : -order) || a.place - b.place;
  });
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  for (const each of rows) body.appendChild(each.row);
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", function () { sort(button.parentNode); });
}
"""
