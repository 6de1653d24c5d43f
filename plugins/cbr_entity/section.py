"""The section "Objects": the map of the objects that a retriever knows [P Fig. 6], and what it knows as numbers.

Any context encoder that says where it puts objects gets it (`cbrcore.PlacesObjects`), on any environment that says
where they belong (`cbrcore.KnowsPlaces`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cbr_entity.objects import ObjectMap, object_maps
from cbr_report.charts import LONG, Style, can_draw, cut, described, distinct, points
from cbr_report.runs import Runs
from cbr_report.tables import columns, number, text_columns
from cbr_report.theme import COLOURS
from cbrcore import Figure, Section, Table

OTHER = "another place"
SEEN, UNSEEN = "training and IN games", "OUT games alone"
"""Where an object occurs: a circle, a triangle."""


def objects(runs: Runs) -> Section | None:
    """The map and the table; None if no run's parts can say."""
    maps = object_maps(runs)
    if not maps:
        return None
    figures = [map_figure(maps)] if can_draw() else []
    return Section("about-objects", "Objects", [*figures, object_table(maps)], order=40)


def map_figure(maps: Sequence[ObjectMap]) -> Figure:
    """A plane per run: a circle for an object of the training and IN games, a triangle for one of OUT alone."""
    counts = Counter(_place(each, name) for each in maps for name in each.names)
    ordered = [place for place, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    common = distinct(ordered[: COLOURS - 1])  # a colour each; the last one is for the others
    styles = {name: Style(position) for position, name in enumerate([*common.values(), OTHER])}
    titles = distinct([f"{each.group.place}: {each.group.agent}" for each in maps])
    rows = [
        {
            "panel": titles[f"{each.group.place}: {each.group.agent}"],
            "series": common.get(_place(each, name), OTHER),
            "kind": UNSEEN if name in each.unseen else SEEN,
            "name": cut(name, LONG),
            "places": cut(", ".join(sorted(each.places[name])), LONG),
            "x": x,
            "y": y,
        }
        for each in maps
        for name, (x, y) in zip(each.names, each.points.tolist(), strict=True)
    ]
    words = "; ".join(
        f"{each.group.place}, {each.group.agent}, {title}: "
        + ", ".join(f"{kind} {number(value, 2)}" for kind, value in found.items())
        for each in maps
        for title, found in each.accuracies.items()
    )
    size: dict[str, Any] = {"width": 900, "height": 520} if len(maps) == 1 else {"width": 480, "height": 420}
    chart = points(
        rows, styles, kinds=(SEEN, UNSEEN), words={"name": "object", "places": "belongs to", "kind": "of"}, **size
    )
    return Figure(
        "objects_map",
        "Objects as the retriever sees them",
        described(chart, f"Objects of one place should lie together. Leave-one-out accuracies: {words}.", styles),
        "t-SNE of the contexts of single objects, coloured by the place where they belong (the first of several)."
        " Circles: objects of the training and IN games. Triangles: objects of the OUT games alone.",
    )


def _place(each: ObjectMap, name: str) -> str:
    return min(each.places[name])


def object_table(maps: Sequence[ObjectMap]) -> Table:
    """Leave-one-out accuracies of all maps."""
    kinds = list(dict.fromkeys(kind for each in maps for found in each.accuracies.values() for kind in found))
    rows = tuple(
        (each.group.place, each.group.agent, title, *(number(found.get(kind), 2) for kind in kinds))
        for each in maps
        for title, found in each.accuracies.items()
    )
    return Table(
        "objects",
        "Does the retriever know where things belong?",
        (*text_columns("Games", kind="text group"), *text_columns("Agent", "Objects"), *columns(kinds)),
        rows,
        note="Leave-one-out accuracy: the share of objects whose most similar other object belongs to the same"
        " place. Names alone tell a lot, so the trained row is to be compared with the frozen text encoding.",
    )
