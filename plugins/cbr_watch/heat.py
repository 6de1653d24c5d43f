"""A heat map: the similarities of cases in memory with the contexts of a step, drawn for one decision [P Fig. 3].

One hue whose opacity is the similarity, so that the map reads in any colour vision, on a light and on a dark page
and on paper; the number stands in every cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cbrcore.explanations import VERDICTS, origin_of, origin_text
from cbrcore.report.decisions import Example
from cbrcore.report.svg import Panel, segment, text, tip
from cbrcore.types import Candidate, Case

LABELS, CELL, ROW = 262.0, 58.0, 36.0
"""Widths of the cases' labels and of a cell, height of a row."""
TILT = 38
"""Degrees by which the contexts' labels rise."""
LETTER = 5.9
"""Width of a letter, about."""
ROW_LETTERS, TEMPLATE_LETTERS, COLUMN_LETTERS = 39, 22, 26
"""Longer labels are cut; what one points at tells them whole."""
NARROW = 665.0
"""The legend needs so much."""
SHADES, BAR = 20, 160.0
"""Steps and width of the legend's scale."""

Cell = tuple[int, int, float, float]
"""(row of the case, column of the context, x, y)"""


def heat_panel(example: Example, rows: Sequence[int], columns: Sequence[int]) -> Panel:
    """These cases by these contexts, with labels, signs and a legend."""
    names = [context_text(example.compared.contexts[column]) for column in columns]
    reach = max(len(cut(name, COLUMN_LETTERS)) for name in names) * LETTER + 12
    top = max(reach * math.sin(math.radians(TILT)) + 14, 44.0)
    right, bottom = LABELS + len(columns) * CELL, top + len(rows) * ROW
    cells = [
        (row, column, LABELS + across * CELL, top + down * ROW)
        for down, row in enumerate(rows)
        for across, column in enumerate(columns)
    ]
    body = [
        text(8, top - 10, "cases in memory", "axis-title"),
        text(LABELS - 10, top - 10, "contexts", "axis-title end"),
        *(_context(name, LABELS + (at + 0.5) * CELL, top - 8) for at, name in enumerate(names)),
        *(_case(example.compared.cases[row], top + at * ROW) for at, row in enumerate(rows)),
        *(_cell(example, cell) for cell in cells),
        *(_frames(example, cells)),
        _legend(example, cells, bottom + 22),
    ]
    slanted = right - CELL / 2 + reach * math.cos(math.radians(TILT))
    return Panel(max(slanted, right, NARROW) + 8, bottom + 66, "".join(body))


def cut(words: str, letters: int) -> str:
    """The words, cut to so many letters."""
    return words if len(words) <= letters else f"{words[: letters - 1].rstrip()}…"


def context_text(context: Sequence[str]) -> str:
    return ", ".join(context)


def value_text(value: float) -> str:
    """A similarity; a dot where an approximate index did not look."""
    return f"{value:.2f}" if math.isfinite(value) else "·"


# Labels


def _context(name: str, x: float, y: float) -> str:
    turned = f' transform="rotate({-TILT} {x:.1f} {y:.1f})"'
    return text(x, y, cut(name, COLUMN_LETTERS), "heat-label", turned, title=name)


def _case(case: Case, y: float) -> str:
    origin = origin_of(case)
    whole = f"case #{case.id} {case.text!r}, template {case.template!r}, from {origin_text(origin)}"
    below = f"{cut(case.template, TEMPLATE_LETTERS)} · episode {origin.episode}, step {origin.step}"
    return text(8, y + 15, cut(f"#{case.id} {case.text}", ROW_LETTERS), "heat-label", title=whole) + text(
        8, y + 29, below, "tick", title=whole
    )


# Cells


def _cell(example: Example, cell: Cell) -> str:
    row, column, x, y = cell
    value = float(example.compared.values[row, column])
    return (
        f"<g>{tip(_says(example, row, column))}{_box('cell', x, y)}{_heat(value, x, y, CELL, ROW)}"
        + text(x + CELL / 2, y + ROW / 2 + 5, value_text(value), "heat-value middle")
        + f"{_sign(example.candidates.get((row, column)), x + CELL - 9, y + 9)}</g>"
    )


def _says(example: Example, row: int, column: int) -> str:
    """What a browser shows when one points at a cell."""
    case, context = example.compared.cases[row], context_text(example.compared.contexts[column])
    value = float(example.compared.values[row, column])
    relation = f"{value:.2f} {'>' if value > example.tau else '<='} tau {example.tau:.2f}"
    words = f"case #{case.id} {case.text!r} for {context}: "
    words += relation if math.isfinite(value) else "the approximate index did not look"
    candidate, aside = example.candidates.get((row, column)), example.left_aside(row, column)
    if candidate is not None:
        words += f"; reused as {candidate.action.text!r}: {VERDICTS[candidate.verdict]}"
    return f"{words}; not retrieved: {aside}" if aside else words


def _heat(value: float, x: float, y: float, width: float, height: float) -> str:
    opacity = min(max(value, 0.0), 1.0)  # -inf where nobody looked
    return (
        f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        f' fill-opacity="{opacity:.3f}"/>'
    )


def _box(kind: str, x: float, y: float, inset: float = 0.0, width: float = CELL, height: float = ROW) -> str:
    return (
        f'<rect class="{kind}" x="{x + inset:.1f}" y="{y + inset:.1f}" width="{width - 2 * inset:.1f}"'
        f' height="{height - 2 * inset:.1f}"/>'
    )


def _sign(candidate: Candidate | None, x: float, y: float) -> str:
    """Where a case was retrieved: a cross if revise refused it, else a dot."""
    if candidate is None:
        return ""
    if candidate.verdict == "admissible":
        return f'<circle class="sign" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    strokes = ((-2.8, 2.8), (2.8, -2.8))
    return "".join(segment(x - 2.8, y + start, x + 2.8, y + end, "sign") for start, end in strokes)


def _frames(example: Example, cells: Sequence[Cell]) -> list[str]:
    """Around cells above tau, and a thick one around what was done; over the other cells' edges."""
    above = [_box("above", x, y, 2.5) for row, column, x, y in cells if _above(example, row, column)]
    return above + [_box("chosen", x, y) for row, column, x, y in cells if (row, column) == example.chosen]


def _above(example: Example, row: int, column: int) -> bool:
    return bool(example.compared.values[row, column] > example.tau)


# The legend


def _legend(example: Example, cells: Sequence[Cell], y: float) -> str:
    """The scale with tau, and what frames and signs mean."""
    start, shade = 92.0, BAR / SHADES
    bar = "".join(
        _heat((number + 0.5) / SHADES, start + number * shade, y, shade, 12.0) for number in range(SHADES)
    )
    tau = start + BAR * example.tau
    scale = (
        text(start - 8, y + 10, "similarity 0", "tick end")
        + bar
        + _box("cell", start, y, width=BAR, height=12.0)
        + text(start + BAR + 6, y + 10, "1", "tick")
        + segment(tau, y - 4, tau, y + 16, "tau")
        + text(tau, y + 28, f"tau {example.tau:.2f}", "tick middle")
    )
    return scale + "".join(_keys(example, cells, start + BAR + 38, y - 3))


def _keys(example: Example, cells: Sequence[Cell], x: float, y: float) -> list[str]:
    """What frames and signs mean, those that occur, in two columns."""
    places = [(row, column) for row, column, _, _ in cells]
    candidates = [example.candidates[place] for place in places if place in example.candidates]
    verdicts = {candidate.verdict == "admissible" for candidate in candidates}
    keys = [("above", "above tau")] if any(_above(example, *place) for place in places) else []
    keys += [("admissible", "retrieved, admissible")] if True in verdicts else []
    keys += [("refused", "retrieved, refused by revise")] if False in verdicts else []
    keys += [("chosen", "reused")] if example.chosen in places else []
    drawn = []
    for at, (kind, words) in enumerate(keys):
        left, up = x + 196 * (at % 2), y + 22 * (at // 2)
        drawn.append(_key(kind, left, up) + text(left + 28, up + 12, words, "tick"))
    return drawn


def _key(kind: str, x: float, y: float) -> str:
    if kind in ("above", "chosen"):
        return _box(kind, x, y, width=22.0, height=16.0)
    if kind == "admissible":
        return f'<circle class="sign" cx="{x + 11:.1f}" cy="{y + 8:.1f}" r="3"/>'
    strokes = ((-2.8, 2.8), (2.8, -2.8))
    return "".join(segment(x + 8.2, y + 8 + start, x + 13.8, y + 8 + end, "sign") for start, end in strokes)
