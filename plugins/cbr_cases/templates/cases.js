"use strict";
{ /* The search: rows that hold every word, and the situations of these. */
  const rows = Array.from(document.querySelectorAll("#cases tbody tr"));
  const count = document.getElementById("count");
  document.getElementById("search").addEventListener("input", event => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      document.getElementById(row.querySelector("a").hash.slice(1)).hidden = row.hidden;
      shown += !row.hidden;
    }
    count.textContent = shown + " of " + rows.length;
  });
}
