"use strict";
/* Tables: a click on a column's title sorts by it. */
function numberIn(text) {
  const found = /^\[?\s*([-+]?\d+(\.\d+)?)/.exec(text);
  return found ? parseFloat(found[1]) : null;
}
function compareCells(a, b, numbers) {
  if (!numbers) return a.localeCompare(b);
  const left = numberIn(a), right = numberIn(b);
  if (left === null || right === null) return (left === null) - (right === null);
  return left - right;
}
function sortBy(th) {
  const body = th.closest("table").tBodies[0];
  const up = th.getAttribute("aria-sort") !== "ascending";
  const numbers = !th.classList.contains("text");
  const rows = Array.from(body.rows).map((row, place) => ({row, place, text: row.cells[th.cellIndex].textContent}));
  rows.sort(function (a, b) {
    const missing = numbers && (numberIn(a.text) === null || numberIn(b.text) === null);
    const order = compareCells(a.text, b.text, numbers);
    return (up || missing ? order : -order) || a.place - b.place;
  });
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  for (const each of rows) body.appendChild(each.row);
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => sortBy(button.parentNode));
}
