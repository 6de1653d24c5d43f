"""Charts of single numbers: a bar or a point per number, a row per name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cbrcore.report.svg import BOTTOM, TOP, Panel, Scale, Style, segment, short, text, ticks, tip
from cbrcore.report.tables import number

CHARACTER = 6.3
"""About the width of a letter."""


@dataclass(frozen=True)
class Mark:
    """A number with an optional standard deviation; drawn as a bar from 0, or as a point."""

    name: str
    style: Style
    value: float
    std: float | None = None


def mark_panel(
    title: str,
    rows: Sequence[tuple[str, Sequence[Mark]]],
    *,
    x_title: str,
    bars: bool,
    digits: int = 2,
    high: float | None = None,
    labels: float = 150,
    width: float = 400,
) -> Panel:
    """One row per label, its marks one below the other; without rows nothing is drawn.

    Args:
        labels: the width for the rows' names; 0: none.
    """
    if not rows:
        return Panel(width, 0.0, "")
    slot = 15.0
    height = TOP + BOTTOM + sum(slot * len(marks) + 8 for _, marks in rows)
    ends = [mark.value + (mark.std or 0) for _, marks in rows for mark in marks]
    starts = [mark.value - (mark.std or 0) for _, marks in rows for mark in marks]
    low = 0.0 if bars else min(starts) - 0.05 * (max(ends) - min(starts))
    x = Scale(low, high or max([*ends, low + 1e-9]) * 1.02, max(labels, 16.0), width - 46)
    parts = [text(x.start, 16, title, "panel-title"), _ruler(x, height, x_title)]
    at = TOP + 4
    for label, marks in rows:
        if labels:
            parts.append(_row_label(label, labels, at + slot * len(marks) / 2))
        for mark in marks:
            parts.append(_bar(mark, x, at, digits) if bars else _point(mark, x, at, digits))
            at += slot
        at += 8
    return Panel(width, height, "".join(parts))


def _ruler(x: Scale, height: float, title: str) -> str:
    parts = []
    for tick in ticks(x.low, x.high, 4):
        parts.append(segment(x(tick), TOP, x(tick), height - BOTTOM, "grid"))
        parts.append(text(x(tick), height - BOTTOM + 16, short(tick), "tick middle"))
    parts.append(segment(x.start, TOP, x.start, height - BOTTOM, "axis"))
    parts.append(text((x.start + x.end) / 2, height - 6, title, "axis-title middle"))
    return "".join(parts)


def _row_label(label: str, labels: float, at: float) -> str:
    fits = int((labels - 16) / CHARACTER)
    shown = label if len(label) <= fits else f"{label[: fits - 1]}…"
    return text(labels - 8, at + 4, shown, "tick end", title=label)


def _bar(mark: Mark, x: Scale, top: float, digits: int) -> str:
    length = max(x(mark.value) - x.start, 0.5)
    bar = (
        f'<rect class="bar {mark.style.classes}" x="{x.start:.1f}" y="{top + 2:.1f}" width="{length:.1f}"'
        f' height="11">{tip(_says(mark, digits))}</rect>'
    )
    return bar + _spread(mark, x, top, digits)


def _point(mark: Mark, x: Scale, top: float, digits: int) -> str:
    point = (
        f'<circle class="point {mark.style.classes}" cx="{x(mark.value):.1f}" cy="{top + 7.5:.1f}" r="4.5">'
        f"{tip(_says(mark, digits))}</circle>"
    )
    return _spread(mark, x, top, digits) + point


def _spread(mark: Mark, x: Scale, top: float, digits: int) -> str:
    """The standard deviation as a line, and the number beside it."""
    end = x(mark.value + (mark.std or 0))
    middle = top + 7.5
    whisker = segment(x(max(mark.value - (mark.std or 0), x.low)), middle, end, middle, "whisker")
    label = text(max(end, x(mark.value) + 4) + 5, middle + 4, number(mark.value, digits), "value")
    return (whisker if mark.std else "") + label


def _says(mark: Mark, digits: int) -> str:
    spread = f" ± {number(mark.std, digits)}" if mark.std is not None else ""
    return f"{mark.name}: {number(mark.value, digits)}{spread}"


def label_width(labels: Sequence[str]) -> float:
    """Room for the names of rows; longer ones are cut."""
    return min(16 + CHARACTER * max(map(len, labels), default=0), 250.0)
