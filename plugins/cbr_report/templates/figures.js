"use strict";
/* Figures: Vega-Lite specifications, drawn where they stand, in the colours of the page. Text is never evaluated. */
const PALETTES = JSON.parse(document.getElementById("palettes").textContent);
const FIGURES = Array.from(document.querySelectorAll("figure[data-chart]"), figure => ({figure, view: null}));
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
const MENU = 40; /* room for the menu beside a figure */

function palette() { return PALETTES[DARK.matches ? "dark" : "light"]; }

function paint(colours) {
  for (const {view} of FIGURES) {
    if (!view) continue;
    for (const name of Object.keys(colours)) view.signal("cbr_" + name, colours[name]);
    view.run();
  }
}

/* As many panels side by side as there is room for; a grid keeps whole rows. specs.py does the same for files. */
function fit(spec, room) {
  const told = spec.usermeta || {}, inner = spec.spec;
  if (told.panel && inner && "columns" in spec) {
    const beside = told.panel - inner.width, least = beside + 0.75 * inner.width;
    let columns = spec.columns;
    while (columns > 1 && (columns * least > room || (told.grid && spec.columns % columns))) columns -= 1;
    spec.columns = columns;
    inner.width = Math.max(110, Math.min(inner.width, Math.floor(room / columns) - beside));
  }
  if (told.entry) spec.config.legend.columns = Math.max(1, Math.floor(room / told.entry));
}

async function draw(entry) {
  const place = entry.figure.querySelector(".chart");
  const spec = JSON.parse(entry.figure.querySelector("script").textContent);
  const colours = palette();
  fit(spec, place.clientWidth - MENU);
  for (const parameter of spec.params) {
    const name = parameter.name.replace(/^cbr_/, "");
    if (name !== parameter.name && name in colours) parameter.value = colours[name];
  }
  try {
    if (entry.view) entry.view.finalize();
    const drawn = await vegaEmbed(place, spec, {
      mode: "vega-lite", renderer: "svg", ast: true, logLevel: 0, downloadFileName: entry.figure.id,
      actions: {export: {svg: true, png: true}, source: false, compiled: false, editor: false},
    });
    entry.view = drawn.view;
  } catch (error) {
    place.textContent = "This figure cannot be drawn: " + error.message;
  }
}

async function drawAll() {
  for (const entry of FIGURES) await draw(entry);
  document.body.dataset.drawn = "yes";
}

let width = window.innerWidth, waiting = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  window.clearTimeout(waiting);
  waiting = window.setTimeout(drawAll, 200);
});
DARK.addEventListener("change", () => paint(palette()));
window.addEventListener("beforeprint", () => paint(PALETTES.print));
window.addEventListener("afterprint", () => paint(palette()));
drawAll();
