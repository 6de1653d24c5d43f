"""Charts as SVG text: scales, axes, lines with bands, and the drawing that holds them.

Colours are classes (c0 to c7) that the page's style sheet defines for light, dark and print; text and axes take
the page's text colour. Every mark has a title that a browser shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = 8
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 28.0, 42.0
"""Margins around a panel's plot."""


@dataclass(frozen=True)
class Style:
    """How a series is drawn: a colour of the palette, and whether its line is dashed (its mark hollow)."""

    colour: int
    dashed: bool = False

    @property
    def classes(self) -> str:
        return f"c{self.colour % COLOURS}{' dashed' if self.dashed else ''}"


@dataclass(frozen=True)
class Series:
    """A line with a band around it; all of one length."""

    name: str
    style: Style
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """A drawing of this size, its corner at (0, 0)."""

    width: float
    height: float
    body: str


class Scale:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = low, high if high > low else low + 1
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from `low` to `high`."""
    span = max(high - low, 1e-9)
    rough = span / max(count - 1, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 10) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """1500 is 1.5k."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:g}"


def line_panel(
    title: str, series: Sequence[Series], *, x_title: str, y_title: str, width: float = 330, height: float = 240
) -> Panel:
    """Lines with bands over a common pair of axes."""
    values = [value for each in series for value in (*each.low, *each.high, *each.y)]
    x = Scale(min(each.x[0] for each in series), max(each.x[-1] for each in series), LEFT, width - RIGHT)
    low, high = min(0.0, *values), max(values)
    y = Scale(low, high + 0.04 * (high - low), height - BOTTOM, TOP)
    body = [_frame(title, x, y, x_title, y_title, width, height)]
    body += [_band(each, x, y) for each in series] + [_line(each, x, y) for each in series]
    return Panel(width, height, "".join(body))


def _frame(title: str, x: Scale, y: Scale, x_title: str, y_title: str, width: float, height: float) -> str:
    parts = [text(LEFT, 16, title, "panel-title")]
    for tick in ticks(y.low, y.high):
        parts.append(segment(x.start, y(tick), x.end, y(tick), "grid"))
        parts.append(text(x.start - 6, y(tick) + 4, short(tick), "tick end"))
    for tick in ticks(x.low, x.high, 6):
        parts.append(segment(x(tick), y.start, x(tick), y.start + 4, "axis"))
        parts.append(text(x(tick), y.start + 17, short(tick), "tick middle"))
    parts.append(segment(x.start, y.start, x.end, y.start, "axis"))
    parts.append(text((x.start + x.end) / 2, height - 6, x_title, "axis-title middle"))
    middle = (y.start + y.end) / 2
    parts.append(text(12, middle, y_title, "axis-title middle", f' transform="rotate(-90 12 {middle:.1f})"'))
    return "".join(parts)


def _band(series: Series, x: Scale, y: Scale) -> str:
    if list(series.low) == list(series.high):
        return ""
    forth = list(zip(series.x, series.high, strict=True))
    back = list(zip(series.x, series.low, strict=True))[::-1]
    points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in forth + back)
    return f'<polygon class="band {series.style.classes}" points="{points}"/>'


def _line(series: Series, x: Scale, y: Scale) -> str:
    points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(series.x, series.y, strict=True))
    return f'<polyline class="line {series.style.classes}" points="{points}">{tip(series.name)}</polyline>'


def text(x: float, y: float, words: str, classes: str, more: str = "", *, title: str = "") -> str:
    return f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}"{more}>{tip(title)}{escape(words)}</text>'


def segment(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    return f'<line class="{classes}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def tip(words: str) -> str:
    """What a browser shows when one points at a mark."""
    return f"<title>{escape(words)}</title>" if words else ""


def drawing(id_: str, title: str, description: str, panels: Sequence[Panel], columns: int = 3) -> str:
    """Panels in rows as one image, with its title and description for those who do not see it."""
    columns = min(columns, len(panels))
    x, y, row_height, width, placed = 0.0, 0.0, 0.0, 0.0, []
    for position, panel in enumerate(panels):
        if position and position % columns == 0:
            x, y, row_height = 0.0, y + row_height + 12, 0.0
        placed.append(f'<g transform="translate({x:.1f} {y:.1f})">{panel.body}</g>')
        x, row_height = x + panel.width, max(row_height, panel.height)
        width = max(width, x)
    return (
        f'<svg role="img" aria-labelledby="{id_}-t {id_}-d" viewBox="0 0 {width:.0f} {y + row_height:.0f}"'
        f' style="max-width:{max(width, 480):.0f}px">'
        f'<title id="{id_}-t">{escape(title)}</title><desc id="{id_}-d">{escape(description)}</desc>'
        f"{''.join(placed)}</svg>"
    )
