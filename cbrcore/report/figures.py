"""The figures of the page: curves over training here, marks in `bars`, the map of objects in `maps`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cbrcore.report.bars import beside_the_paper, gap, reuse
from cbrcore.report.belong import Paper
from cbrcore.report.curves import Curve, curve_of
from cbrcore.report.figure import Figure, Styles, legend_of, styles_of
from cbrcore.report.maps import map_figure
from cbrcore.report.measures import in_points
from cbrcore.report.objects import ObjectMap
from cbrcore.report.results import by_place
from cbrcore.report.runs import Group
from cbrcore.report.svg import Series, drawing, line_panel
from cbrcore.report.tables import number


def figures(groups: Sequence[Group], paper: Paper, maps: Sequence[ObjectMap]) -> list[Figure]:
    """All figures that the runs have the data for."""
    styles = styles_of(groups)
    return [
        *beside_the_paper(paper),
        *_curves(groups, styles),
        *reuse(groups),
        *gap(groups, styles),
        *([map_figure(maps)] if maps else []),
    ]


# Curves [P Fig. 2, Fig. 5]

CURVES = (
    ("learning", "Learning curves", "norm_score", "normalized score", True),
    ("score", "Learning curves", "score", "score", True),
    ("steps", "Steps per episode over training", "steps", "steps", True),
    ("memory", "Cases in the memory over training", "memory_size", "cases", False),
    ("codes", "Code usage over training", "code_usage", "share of codes in use", False),
)
"""(id, title, key of metrics.jsonl, axis, whether it is smoothed)"""


def _curves(groups: Sequence[Group], styles: Styles) -> Iterator[Figure]:
    for id_, title, key, axis, smooth in CURVES:
        wanted = [group for group in groups if _wants(group, key)]
        curves = {group: curve for group in wanted if (curve := curve_of(group, key, smooth=smooth))}
        if curves:
            yield _curve_figure(id_, title, axis, curves, styles, smooth=smooth)


def _wants(group: Group, key: str) -> bool:
    if key in ("norm_score", "steps"):
        return not in_points(group)
    return in_points(group) if key == "score" else group.uses_cases


def _curve_figure(
    id_: str, title: str, axis: str, curves: Mapping[Group, Curve], styles: Styles, *, smooth: bool
) -> Figure:
    places = list(by_place(list(curves)))
    wide = len(places) == 1
    panels = [
        line_panel(
            place,
            [_series(group, curves[group], styles) for group in same],
            x_title="environment steps",
            y_title=axis,
            width=900 if wide else 330,
            height=340 if wide else 240,
        )
        for place, same in places
    ]
    ends = "; ".join(
        f"{group.place}, {group.agent}: {number(float(curve.mean[-1]), 2)}" for group, curve in curves.items()
    )
    smoothed = " Each point is the mean over the last 5 % of a run's episodes." if smooth else ""
    return Figure(
        id_,
        title,
        drawing(id_, title, f"Lines of {axis} over environment steps. At the end: {ends}.", panels),
        f"Mean over the runs of a cell; the band is one standard deviation to each side.{smoothed}",
        legend_of([group.agent for group in curves], styles),
    )


def _series(group: Group, curve: Curve, styles: Styles) -> Series:
    return Series(
        group.agent,
        styles[group.agent],
        curve.x.tolist(),
        curve.mean.tolist(),
        curve.low.tolist(),
        curve.high.tolist(),
    )
