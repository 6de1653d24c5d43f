"""Colours: of the page in light, in dark and on paper, and of the figures in it.

Those of series are Okabe and Ito's, which people with any colour vision can tell apart; a little lighter on a dark
page. A figure names a colour by a parameter (`colour("ink")`), so that the page can change it while it is shown.
"""

from __future__ import annotations

from typing import Any

LIGHT = {
    "page": "#fbfbfa", "card": "#ffffff", "ink": "#1b1f24", "soft": "#5b6470", "line": "#dfe3e8",
    "accent": "#0072b2", "best": "#e3f1ea", "c0": "#0072b2", "c1": "#d55e00", "c2": "#009e73", "c3": "#cc79a7",
    "c4": "#e69f00", "c5": "#56b4e9", "c6": "#5b6470", "c7": "#a8a000", "heat": "#2e8bc0", "onheat": "#000000",
}  # fmt: skip
DARK = {
    "page": "#14171b", "card": "#1c2026", "ink": "#e8eaed", "soft": "#a3acb8", "line": "#343a43",
    "accent": "#56b4e9", "best": "#1d3a30", "c0": "#3b9be0", "c1": "#e8762c", "c2": "#1fbf92", "c3": "#d98fb8",
    "c4": "#e69f00", "c5": "#7cc7f2", "c6": "#a3acb8", "c7": "#f0e442", "heat": "#2272b4", "onheat": "#ffffff",
}  # fmt: skip
PRINT = LIGHT | {
    "page": "#ffffff", "ink": "#000000", "soft": "#444444", "line": "#bbbbbb", "accent": "#000000",
    "best": "#eeeeee", "c6": "#444444",
}  # fmt: skip
PALETTES = {"light": LIGHT, "dark": DARK, "print": PRINT}
COLOURS = 8
"""c0 to c7; a ninth series begins anew, dashed."""

PREFIX = "cbr_"
"""Of the parameters that hold colours."""


def colour(name: str) -> dict[str, str]:
    """A colour of the page in a Vega-Lite specification, also of an altair chart."""
    return {"expr": PREFIX + name}


def parameters(palette: dict[str, str]) -> list[dict[str, Any]]:
    """What `colour` refers to, as Vega-Lite parameters."""
    return [{"name": PREFIX + name, "value": value} for name, value in palette.items()]


def config(font: str) -> dict[str, Any]:
    """How figures look that do not say it: Vega-Lite's configuration."""
    ink, soft, line = colour("ink"), colour("soft"), colour("line")
    text = {"labelColor": soft, "titleColor": soft, "labelFontSize": 11, "titleFontSize": 11}
    return {
        "font": font,
        "background": colour("card"),
        "view": {"stroke": None},
        "axis": {
            **text, "titleFontWeight": "normal", "gridColor": line, "domainColor": soft, "tickColor": soft,
            "labelLimit": 250,
        },
        "legend": {**text, "labelColor": ink, "labelLimit": 320, "symbolStrokeWidth": 2.5, "titleLimit": 320},
        "header": {
            "labelColor": ink, "titleColor": ink, "labelFontSize": 12, "labelFontWeight": "bold",
            "labelAnchor": "start",
        },
        "title": {"color": ink, "subtitleColor": soft, "fontSize": 12, "anchor": "start"},
        "text": {"color": ink},
        "rule": {"color": ink},
        "range": {"category": [colour(f"c{number}") for number in range(COLOURS)]},
    }  # fmt: skip
