"""The map of the objects that a retriever knows [P Fig. 6]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from cbrcore.report.figure import Figure
from cbrcore.report.objects import ObjectMap
from cbrcore.report.svg import COLOURS, Panel, Scale, Style, drawing, text, tip
from cbrcore.report.tables import number

OTHER = "another place"
HEIGHT = 600.0
MARGIN = 46.0


def map_figure(maps: Sequence[ObjectMap]) -> Figure:
    """A plane per run: a circle for an object of the training and IN games, a triangle for one of OUT alone."""
    places = _common_places(maps)
    words = "; ".join(
        f"{each.group.place}, {each.group.agent}, {title}: "
        + ", ".join(f"{kind} {number(value, 2)}" for kind, value in found.items())
        for each in maps
        for title, found in each.accuracies.items()
    )
    return Figure(
        "objects_map",
        "Objects as the retriever sees them",
        drawing(
            "objects_map",
            "t-SNE map of the objects' contexts",
            f"Objects that belong to one place should lie together. Leave-one-out accuracies: {words}.",
            [_panel(each, places, 1040.0 if len(maps) == 1 else 600.0) for each in maps],
            columns=2,
        ),
        "t-SNE of the contexts of single objects, coloured by the place where they belong (the first of several)."
        " Circles: objects of the training and IN games. Triangles: objects of the OUT games alone.",
        tuple((place, Style(position)) for position, place in enumerate([*places, OTHER][:COLOURS])),
    )


def _common_places(maps: Sequence[ObjectMap]) -> list[str]:
    """The places of most objects, one colour each; the last colour is for the others."""
    counts = Counter(_place(each, name) for each in maps for name in each.names)
    return [place for place, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: COLOURS - 1]]


def _place(each: ObjectMap, name: str) -> str:
    return min(each.places[name])


def _panel(each: ObjectMap, places: Sequence[str], width: float) -> Panel:
    low, high = each.points.min(axis=0), each.points.max(axis=0)
    x = Scale(float(low[0]), float(high[0]), MARGIN, width - MARGIN - 60)
    y = Scale(float(low[1]), float(high[1]), HEIGHT - MARGIN, MARGIN + 10)
    body = [text(8, 18, f"{each.group.place}: {each.group.agent}", "panel-title")]
    for name, (across, up) in zip(each.names, each.points.tolist(), strict=True):
        place = _place(each, name)
        colour = places.index(place) if place in places else min(len(places), COLOURS - 1)
        says = f"{name}: {', '.join(sorted(each.places[name]))}"
        shape = _triangle if name in each.unseen else _circle
        body.append(shape(x(across), y(up), Style(colour), says))
        body.append(text(x(across) + 7, y(up) + 3.5, name, "name"))
    return Panel(width, HEIGHT, "".join(body))


def _circle(x: float, y: float, style: Style, says: str) -> str:
    return f'<circle class="object {style.classes}" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{tip(says)}</circle>'


def _triangle(x: float, y: float, style: Style, says: str) -> str:
    points = escape(f"{x:.1f},{y - 5.5:.1f} {x - 5.5:.1f},{y + 4:.1f} {x + 5.5:.1f},{y + 4:.1f}")
    return f'<polygon class="object {style.classes}" points="{points}">{tip(says)}</polygon>'
