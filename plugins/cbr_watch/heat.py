"""A heat map: the similarities of cases in memory with the contexts of a step, drawn for one decision [P Fig. 3].

One hue that grows with the similarity, so that the map reads in any colour vision, on a light and on a dark page
and on paper; the number stands in every cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cbr_open.explanations import VERDICTS, origin_of, origin_text
from cbr_report.charts import cut
from cbr_report.theme import colour
from cbr_watch.decisions import Example
from cbrcore import Case

if TYPE_CHECKING:
    import altair as alt

CELL, ROW = 58, 36
"""Width and height of a cell."""
ROW_LETTERS, TEMPLATE_LETTERS, COLUMN_LETTERS = 39, 22, 26
"""Longer labels are cut; what one points at tells them whole."""
ABOVE, REUSED = "above tau", "reused"
ADMISSIBLE, REFUSED = "retrieved, admissible", "retrieved, refused by revise"
FRAMES = {ABOVE: ("ink", 1.5), REUSED: ("c1", 4.0)}
"""Frame around a cell -> its colour and width."""
SIGNS = {ADMISSIBLE: "circle", REFUSED: "M-0.8,-0.8L0.8,0.8M0.8,-0.8L-0.8,0.8"}
"""Sign in the corner of a cell -> its shape."""


def heat_map(example: Example, rows: Sequence[int], columns: Sequence[int]) -> alt.LayerChart:
    """These cases by these contexts: numbers on colours, frames and signs, each with a legend."""
    import altair as alt

    cells = heat_rows(example, rows, columns)
    frames = [cell | {"meaning": kind} for cell in cells for kind in FRAMES if kind in cell["marks"]]
    signs = [cell | {"meaning": kind} for cell in cells for kind in SIGNS if kind in cell["marks"]]
    click = alt.selection_point(name="click", fields=["meaning"], bind="legend")
    across = alt.X(
        "context:N",
        title="contexts",
        sort=list(dict.fromkeys(cell["context"] for cell in cells)),
        axis=alt.Axis(
            orient="top", labelAngle=-38, labelAlign="left", titleAnchor="start", ticks=False, domain=False
        ),
    )
    down = alt.Y(
        "case:N",
        title="cases in memory",
        sort=list(dict.fromkeys(cell["case"] for cell in cells)),
        axis=alt.Axis(
            labelExpr="split(datum.label, '\\n')",
            labelLimit=270,
            labelPadding=8,
            ticks=False,
            domain=False,
            titleAngle=0,
            titleAlign="right",
            titleBaseline="bottom",
            titleX=-8,
            titleY=-12,
        ),
    )
    base = alt.Chart(alt.Data(values=cells)).encode(x=across, y=down, tooltip=alt.Tooltip("says:N", title=" "))
    layers = [
        base.mark_rect(stroke=colour("line")).encode(color=_similarity(example.tau)),
        base.mark_text(fontSize=12, color=colour("onheat")).encode(text="text:N"),
    ]
    if frames:
        layers.append(_frames(base.properties(data=alt.Data(values=frames))).transform_filter(click))
    if signs:
        layers.append(_signs(base.properties(data=alt.Data(values=signs))).transform_filter(click))
    if frames or signs:
        layers[-1] = layers[-1].add_params(click)
    return (
        alt.layer(*layers)
        .properties(width=alt.Step(CELL), height=alt.Step(ROW))
        .resolve_legend(color="independent", stroke="independent", shape="independent")
    )


def _similarity(tau: float) -> alt.Color:
    """The colour of a similarity; tau is marked on its scale."""
    import altair as alt

    legend = alt.Legend(
        orient="bottom", direction="horizontal", gradientLength=180, gradientThickness=12, format=".2f",
        title=f"similarity; tau is {tau:.2f}", values=sorted({0.0, round(tau, 4), 1.0}),
    )  # fmt: skip
    scale = alt.Scale(domain=[0, 1], range=[colour("card"), colour("heat")], interpolate="rgb", clamp=True)
    return alt.Color("similarity:Q", scale=scale, legend=legend)


def _frames(base: alt.Chart) -> alt.Chart:
    import altair as alt

    used = _used(base, FRAMES)
    legend = alt.Legend(orient="bottom", symbolType="square", symbolFillColor="transparent", symbolSize=180)
    colours, widths = ([FRAMES[kind][at] for kind in used] for at in (0, 1))
    share = alt.RelativeBandSize(band=0.93)
    return base.mark_rect(filled=False, width=share, height=share).encode(
        stroke=alt.Stroke(
            "meaning:N",
            title=None,
            scale=alt.Scale(domain=used, range=[colour(str(c)) for c in colours]),
            legend=legend,
        ),
        strokeWidth=alt.StrokeWidth(
            "meaning:O", title=None, scale=alt.Scale(domain=used, range=widths), legend=None
        ),
    )


def _signs(base: alt.Chart) -> alt.Chart:
    """In the upper right corner of a cell."""
    import altair as alt

    used = _used(base, SIGNS)
    legend = alt.Legend(orient="bottom", symbolStrokeColor=colour("ink"), symbolStrokeWidth=1.75)
    scale = alt.Scale(domain=used, range=[SIGNS[kind] for kind in used])
    mark = base.mark_point(
        xOffset=CELL / 2 - 9, yOffset=9 - ROW / 2, size=34, strokeWidth=1.75, stroke=colour("onheat")
    )
    return mark.encode(shape=alt.Shape("meaning:N", title=None, scale=scale, legend=legend))


def _used(base: alt.Chart, kinds: Any) -> list[str]:
    """The kinds that occur."""
    told = {row["meaning"] for row in base.data.values}
    return [kind for kind in kinds if kind in told]


def heat_rows(example: Example, rows: Sequence[int], columns: Sequence[int]) -> list[dict[str, Any]]:
    """The cells, row by row: similarity, what is written and told, and `marks` (frames and signs)."""
    compared = example.compared
    across = _labels([cut(context_text(compared.contexts[column]), COLUMN_LETTERS) for column in columns])
    down = _labels([case_label(compared.cases[row]) for row in rows])
    return [
        {
            "case": down[at],
            "context": across[to],
            "similarity": value if math.isfinite(value := float(compared.values[row, column])) else None,
            "text": value_text(value),
            "says": _says(example, row, column),
            "marks": _marks(example, row, column),
        }
        for at, row in enumerate(rows)
        for to, column in enumerate(columns)
    ]


def context_text(context: Sequence[str]) -> str:
    return ", ".join(context)


def value_text(value: float) -> str:
    """A similarity; a dot where an approximate index did not look."""
    return f"{value:.2f}" if math.isfinite(value) else "·"


def case_label(case: Case) -> str:
    """Two lines: what the case did, and where it is from."""
    origin = origin_of(case)
    first = cut(f"#{case.id} {' '.join(case.text.split())}", ROW_LETTERS)
    template = cut(" ".join(case.template.split()), TEMPLATE_LETTERS)
    return f"{first}\n{template} · episode {origin.episode}, step {origin.step}"


def _labels(texts: Sequence[str]) -> list[str]:
    """The same texts, those that occur again with a number: a label stands for one row or column alone."""
    return [
        f"{text} [{number}]" if (number := texts[:at].count(text) + 1) > 1 else text
        for at, text in enumerate(texts)
    ]


def _marks(example: Example, row: int, column: int) -> list[str]:
    """Frames and signs of a cell."""
    candidate = example.candidates.get((row, column))
    marks = [ABOVE] if bool(example.compared.values[row, column] > example.tau) else []
    marks += [REUSED] if (row, column) == example.chosen else []
    if candidate is not None:
        marks.append(ADMISSIBLE if candidate.verdict == "admissible" else REFUSED)
    return marks


def _says(example: Example, row: int, column: int) -> str:
    """What is shown on pointing at a cell."""
    case, context = example.compared.cases[row], context_text(example.compared.contexts[column])
    value = float(example.compared.values[row, column])
    relation = f"{value:.2f} {'>' if value > example.tau else '<='} tau {example.tau:.2f}"
    words = f"case #{case.id} {case.text!r} for {context}: "
    words += relation if math.isfinite(value) else "the approximate index did not look"
    candidate, aside = example.candidates.get((row, column)), example.left_aside(row, column)
    if candidate is not None:
        words += f"; reused as {candidate.action.text!r}: {VERDICTS[candidate.verdict]}"
    words += f"; not retrieved: {aside}" if aside else ""
    return f"{words}. The case's template is {case.template!r}, it is from {origin_text(origin_of(case))}"
