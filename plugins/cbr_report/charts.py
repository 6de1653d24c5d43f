"""Charts by altair that sections share: lines with bands, ranges and bars, in panels side by side.

A row of data is a mapping with the fields named below and whatever its tooltip shows. Texts of runs and games
stand in the data alone, never in field names, titles of tooltips or expressions. The legend of every chart filters
on click.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cbr_report.theme import COLOURS, colour

if TYPE_CHECKING:
    import altair as alt

Row = Mapping[str, Any]
"""`panel`: which one; `series`: its colour and place in the legend; `name`: the line in a panel of ranges or bars;
`x`, `value`, `low`, `high`: numbers."""
LETTER = 6.4
"""About the width of a letter."""
NAME = 190.0
"""Longer names of series are cut."""
LONG = 120
"""Letters of a text in a figure."""
HOVER = "hover"
"""Style of marks that are not seen, but tell a value on pointing."""
INSTALL = "pip install 'cbr-textrl[report]'"


@dataclass(frozen=True)
class Style:
    """How a series is drawn: a colour of the palette, and whether its line is dashed (its mark paler)."""

    colour: int
    dashed: bool = False


Styles = Mapping[str, Style]
"""series -> its style, in the order of the legend."""
Words = Mapping[str, str]
"""field -> what a tooltip calls it."""
NO_WORDS: Words = MappingProxyType({})


def can_draw() -> bool:
    """Whether figures can be made here; else see `INSTALL`."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def distinct(texts: Sequence[str]) -> dict[str, str]:
    """text -> the same on one line and not too long, no two alike."""
    found: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        short = cut(" ".join(text.split()), LONG)
        taken = [other for other in found.values() if other == short or other.startswith(f"{short} [")]
        found[text] = f"{short} [{len(taken) + 1}]" if taken else short
    return found


def cut(words: str, letters: int) -> str:
    """The words, cut to so many letters."""
    return words if len(words) <= letters else f"{words[: letters - 1].rstrip()}…"


def as_title(words: str) -> str:
    """Words for an axis or a tooltip: Vega-Lite puts them into expressions, where no text may end a string."""
    return " ".join(words.split()).replace("\\", "/").replace('"', "'")


def room_for(names: Sequence[str]) -> float:
    """The width of a legend's or an axis' longest name."""
    return min(max(map(len, names), default=0) * LETTER, NAME)


def lines(
    rows: Sequence[Row],
    styles: Styles,
    *,
    x: str,
    y: str,
    width: float = 300,
    height: float = 210,
    columns: int = 3,
) -> alt.FacetChart:
    """`value` over `x` with a band from `low` to `high`, a line per series."""
    import altair as alt

    x, y = as_title(x), as_title(y)
    click = _click()
    base = alt.Chart().encode(
        x=alt.X("x:Q", title=x, axis=alt.Axis(format="~s", tickCount=5)), color=_colours(styles)
    )
    band = base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", title=y), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(y=alt.Y("value:Q", title=y), strokeDash=_dashes(styles))
    dots = base.mark_point(style=HOVER, opacity=0, size=90).encode(
        y=alt.Y("value:Q", title=y),
        tooltip=_tooltip(
            rows, {"panel": "games", "series": "series", "x": x, "value": y, "low": "from", "high": "to"}
        ),
    )
    layers = alt.layer(band, line, dots).transform_filter(click).add_params(click)
    return _panels(layers, rows, width=width, height=height, columns=columns, beside=70)


def ranges(
    rows: Sequence[Row],
    styles: Styles,
    *,
    x: str | None = None,
    width: float = 175,
    columns: int = 4,
    words: Words = NO_WORDS,
) -> alt.FacetChart:
    """A line per `name`: a tick at `value` on a bar from `low` to `high` (a hollow point where there is none)."""
    import altair as alt

    click = _click()
    names = [str(row["name"]) for row in rows]
    tooltip = _tooltip(
        rows, {"panel": "games", "series": "series", "value": "value", "low": "from", "high": "to", **words}
    )
    y = _names(names)
    scale = alt.Scale(zero=False, padding=8)
    base = alt.Chart().encode(y=y, color=_colours(styles, symbol="square"), tooltip=tooltip)
    if len(set(styles)) > 1 and any(row["name"] != row["series"] for row in rows):
        base = base.encode(yOffset=alt.YOffset("series:N", sort=list(styles)))
    at = alt.X("value:Q", title=x, scale=scale, axis=alt.Axis(tickCount=4))
    known = base.transform_filter("isValid(datum.low)")
    spread = known.mark_bar(height=9).encode(
        fillOpacity=_paler(styles, most=0.85), x=alt.X("low:Q", title=x, scale=scale), x2="high:Q"
    )
    middle = known.mark_tick(thickness=2.5, size=13, opacity=1).encode(x=at, color=alt.ColorValue(colour("ink")))
    alone = base.transform_filter("!isValid(datum.low)").mark_point(size=45, strokeWidth=2, opacity=1).encode(x=at)
    layers = alt.layer(spread, middle, alone).transform_filter(click).add_params(click)
    return _panels(
        layers, rows, width=width, height=alt.Step(20), columns=columns, beside=room_for(names) + 46, grid=True
    )


def bars(
    rows: Sequence[Row], styles: Styles, *, x: str, high: float | None = None, width: float = 230, columns: int = 3
) -> alt.FacetChart:
    """A bar from 0 to `value` per `name` and series, a line from `low` to `high`, and the number behind it."""
    import altair as alt

    click = _click()
    names = [str(row["name"]) for row in rows]
    top = high or 1.15 * max([*(row["value"] for row in rows), *(row["high"] or 0 for row in rows), 1e-9])
    base = alt.Chart().encode(
        y=_names(names),
        color=_colours(styles, symbol="square"),
        tooltip=_tooltip(
            rows, {"panel": "games", "name": "agent", "series": "series", "value": x, "low": "from", "high": "to"}
        ),
    )
    if any(row["name"] != row["series"] for row in rows):
        base = base.encode(yOffset=alt.YOffset("series:N", sort=list(styles)))
    at = alt.X("value:Q", title=x, scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(tickCount=4))
    bar = base.mark_bar().encode(x=at, fillOpacity=_paler(styles))
    spread = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5)
        .encode(x="low:Q", x2="high:Q", color=alt.ColorValue(colour("ink")))
    )
    number = base.mark_text(align="left", dx=4, fontSize=10).encode(
        x=alt.X("end:Q"), text=alt.Text("value:Q", format=".2f"), color=alt.ColorValue(colour("soft"))
    )
    layers = alt.layer(bar, spread, number).transform_filter(click).add_params(click)
    rows = [{**row, "end": row["value"] if row["high"] is None else row["high"]} for row in rows]
    return _panels(
        layers, rows, width=width, height=alt.Step(17), columns=columns, beside=room_for(names) + 66, grid=True
    )


def described(chart: Any, description: str, styles: Styles) -> Any:
    """The chart with a text for those who do not see it, and what the page must know to fit it to a phone."""
    meta = {"entry": room_for(list(styles)) + 48} if styles else {}
    told = chart.usermeta.to_dict() if hasattr(chart.usermeta, "to_dict") else chart.usermeta
    return chart.properties(description=description, usermeta=(told if isinstance(told, dict) else {}) | meta)


def _click() -> alt.Parameter:
    """A click on the legend shows that series alone; with Shift further ones; a double click all again."""
    import altair as alt

    return alt.selection_point(name="click", fields=["series"], bind="legend")


def _names(names: Sequence[str]) -> alt.Y:
    """The lines of a panel; all panels leave as much room for the names."""
    import altair as alt

    axis = alt.Axis(labelLimit=NAME, labelPadding=6, minExtent=room_for(names) + 12)
    return alt.Y("name:N", title=None, sort=list(dict.fromkeys(names)), axis=axis)


def _colours(styles: Styles, *, symbol: str = "stroke") -> alt.Color:
    import altair as alt

    palette = [colour(f"c{style.colour % COLOURS}") for style in styles.values()]
    legend = alt.Legend(
        orient="top", symbolType=symbol, symbolOpacity=1, symbolSize=250 if symbol == "stroke" else 90
    )
    return alt.Color("series:N", title=None, scale=alt.Scale(domain=list(styles), range=palette), legend=legend)


def _dashes(styles: Styles) -> alt.StrokeDash:
    import altair as alt

    dashes = [[6, 4] if style.dashed else [1, 0] for style in styles.values()]
    return alt.StrokeDash("series:N", title=None, scale=alt.Scale(domain=list(styles), range=dashes))


def _paler(styles: Styles, *, most: float = 1.0) -> alt.FillOpacity:
    import altair as alt

    shares = [0.5 * most if style.dashed else most for style in styles.values()]
    return alt.FillOpacity("series:O", title=None, scale=alt.Scale(domain=list(styles), range=shares), legend=None)


def _tooltip(rows: Sequence[Row], words: Words) -> list[alt.Tooltip]:
    """What is shown on pointing: the fields that any row has, numbers with four digits."""
    import altair as alt

    told = [field for field in words if any(row.get(field) is not None for row in rows)]
    numbers = {
        field for field in told if not isinstance(next(r[field] for r in rows if r.get(field) is not None), str)
    }
    return [
        alt.Tooltip(f"{field}:Q", title=as_title(words[field]), format=",.4~r")
        if field in numbers
        else alt.Tooltip(f"{field}:N", title=as_title(words[field]))
        for field in told
    ]


def _panels(
    layers: alt.LayerChart,
    rows: Sequence[Row],
    *,
    width: float,
    height: Any,
    columns: int,
    beside: float,
    grid: bool = False,
) -> alt.FacetChart:
    """A panel for each value of `panel`, with axes of its own and its title above.

    Args:
        beside: what a panel needs besides its plot, for axes, names and the space to the next one.
        grid: the panels of a row belong together.
    """
    import altair as alt

    panels = list(dict.fromkeys(str(row["panel"]) for row in rows))
    lines = "split(datum.label, ', ')"  # what does not fit beside the next panel's title stands below
    header = alt.Header(labelLimit=width + 20, labelOrient="top", title=None, labelExpr=lines)
    return (
        layers.properties(width=width, height=height)
        .facet(
            facet=alt.Facet("panel:N", title=None, sort=panels, header=header),
            data=alt.Data(values=list(map(dict, rows))),
            columns=min(columns, len(panels)),
        )
        .resolve_scale(x="independent", y="independent")
        .properties(usermeta={"panel": width + beside, "grid": grid})
    )


def points(
    rows: Sequence[Row],
    styles: Styles,
    *,
    kinds: Sequence[str],
    words: Words,
    width: float,
    height: float,
    columns: int = 2,
) -> alt.FacetChart:
    """Named points on a plane without axes, at `x` and `y`: circles of the first kind, triangles of the second."""
    import altair as alt

    click = _click()
    shapes = alt.Scale(domain=list(kinds), range=["circle", "triangle-up"])
    plane = {
        axis: make(f"{axis}:Q", axis=None, scale=alt.Scale(zero=False, padding=30))
        for axis, make in (("x", alt.X), ("y", alt.Y))
    }
    base = alt.Chart().encode(**plane)
    mark = base.mark_point(filled=True, size=75, opacity=1, stroke=colour("card"), strokeWidth=0.75).encode(
        color=_colours(styles, symbol="square"),
        shape=alt.Shape("kind:N", title=None, scale=shapes, legend=alt.Legend(orient="top")),
        tooltip=_tooltip(rows, words),
    )
    name = base.mark_text(align="left", dx=7, fontSize=9, limit=110).encode(
        text="name:N", color=alt.ColorValue(colour("soft"))
    )
    layers = alt.layer(mark, name).transform_filter(click).add_params(click)
    return _panels(layers, rows, width=width, height=height, columns=columns, beside=30)
