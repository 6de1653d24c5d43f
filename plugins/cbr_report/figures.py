"""The figures of the page: curves over training, intervals beside the tables, reuse, and the gap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cbr_report.charts import Row, Style, Styles, bars, described, distinct, lines, ranges
from cbr_report.curves import Curve, curve_of
from cbr_report.measures import Measure, in_points, splits_of, total_steps
from cbr_report.results import measures_in
from cbr_report.runs import Group, by_place, number_at
from cbr_report.statistics import LEVEL, Summary, summarize
from cbr_report.tables import interval, mean_std, number
from cbr_report.theme import COLOURS
from cbrcore import Figure, Table

WITH_CBR = re.compile(r"( \+ |_)cbr", re.IGNORECASE)


def styles_of(groups: Sequence[Group]) -> dict[str, Style]:
    """A colour for each agent. With and without CBR ("bike_cbr" and "bike") it is one colour, dashed without."""
    kinds = {group.agent: (WITH_CBR.sub("", group.agent), group.uses_cases) for group in groups}
    if len(set(kinds.values())) < len(kinds):
        return {agent: Style(position, dashed=position >= COLOURS) for position, agent in enumerate(kinds)}
    colours = {part: position for position, part in enumerate(dict.fromkeys(part for part, _ in kinds.values()))}
    return {agent: Style(colours[part], dashed=not cases) for agent, (part, cases) in kinds.items()}


def shown_styles(groups: Sequence[Group], everyone: Sequence[Group]) -> tuple[dict[str, str], Styles]:
    """(agent -> its name in figures, that -> its style) of these groups; the styles are those among everyone."""
    all_names, all_styles = distinct([group.agent for group in everyone]), styles_of(everyone)
    names = {group.agent: all_names[group.agent] for group in groups}
    return names, {name: all_styles[agent] for agent, name in names.items()}


# Intervals, as Agarwal et al. draw them


def interval_figure(table: Table, groups: Sequence[Group]) -> Figure | None:
    """The numbers of a table of results as points on intervals; None if there are none."""
    measured = measures_in(table, groups)
    names, styles = shown_styles(list(measured), groups)
    places = distinct([group.place for group in measured])
    rows: list[dict[str, Any]] = []
    told = []
    for measure in dict.fromkeys(measure for measures in measured.values() for measure in measures):
        for group, measures in measured.items():
            found = measure.summary(group) if measure in measures else None
            if found is not None:
                name = names[group.agent]
                rows.append(_range(_panel(places, group.place, measure.title), name, found, measure))
                told.append(f"{group.place}, {name}, {measure.title}: {number(found.iqm, measure.digits)}")
    if not rows:
        return None
    panels = [
        _panel(places, place, title)
        for place in places
        for title in dict.fromkeys(m.title for ms in measured.values() for m in ms)
    ]
    rows.sort(key=lambda row: panels.index(row["panel"]))
    used = {row["series"] for row in rows}
    styles = {name: style for name, style in styles.items() if name in used}
    wide = max(len(measures) for measures in measured.values())
    return Figure(
        f"{table.id}_intervals",
        f"{table.title}: intervals",
        described(
            ranges(rows, styles, columns=wide), f"Interquartile means with intervals. {'; '.join(told)}.", styles
        ),
        f"Tick: the interquartile mean over runs (the mean of fewer than four). Bar: its {LEVEL:.0%}".replace(
            "%", " %"
        )
        + " bootstrap interval. A ring: too few runs for an interval. The bars of agents without cases are paler.",
    )


def _panel(places: Mapping[str, str], place: str, title: str) -> str:
    """A panel's title: where, if there are several places, and what."""
    return title if len(places) == 1 else f"{places[place]}: {title}"


def _range(panel: str, name: str, found: Summary, measure: Measure) -> dict[str, Any]:
    return {
        "panel": panel, "series": name, "name": name, "value": found.iqm, "low": found.low, "high": found.high,
        "runs": found.runs, "says": f"{number(found.iqm, measure.digits)} {interval(found, measure.digits)}",
    }  # fmt: skip


# Curves [P Fig. 2, Fig. 5]

CURVES = (
    ("learning", "Learning curves", "norm_score", "normalized score", True),
    ("score", "Learning curves", "score", "score", True),
    ("steps", "Steps per episode over training", "steps", "steps", True),
    ("memory", "Cases in the memory over training", "memory_size", "cases", False),
    ("codes", "Code usage over training", "code_usage", "share of codes in use", False),
)
"""(id, title, key of metrics.jsonl, axis, whether it is smoothed)"""
OF_EVERY_RUN = {
    "episode", "env_steps", "game", "ending", "reused", "reuse_rewarded", "agent_steps", "reuse_agent_same",
    "loss_policy", "loss_value", "loss_entropy", "loss_retriever", *(key for _, _, key, _, _ in CURVES),
}  # fmt: skip
"""What cbr itself writes; any other number in metrics.jsonl is a part's own, and gets a curve under its name."""


def curve_figures(groups: Sequence[Group]) -> Iterator[Figure]:
    """Curves of what every run has, then of the metrics of its parts."""
    for id_, title, key, axis, smooth in (*CURVES, *_own_metrics(groups)):
        wanted = [group for group in groups if _wants(group, key)]
        curves = {group: curve for group in wanted if (curve := curve_of(group, key, smooth=smooth))}
        if curves:
            yield _curve_figure((id_, title, axis), curves, groups, smooth=smooth)


def _own_metrics(groups: Sequence[Group]) -> Iterator[tuple[str, str, str, str, bool]]:
    keys = dict.fromkeys(key for group in groups for run in group.runs for row in run.metrics for key in row)
    for position, key in enumerate(key for key in keys if key not in OF_EVERY_RUN):
        name = distinct([key])[key]
        yield (
            f"metric_{position}_{re.sub('[^A-Za-z0-9]+', '_', key)[:40]}",
            f"{name} over training",
            key,
            name,
            True,
        )


def _wants(group: Group, key: str) -> bool:
    if key in ("norm_score", "steps"):
        return not in_points(group)
    if key in ("memory_size", "code_usage"):
        return group.uses_cases
    return key != "score" or in_points(group)


def _curve_figure(
    named: tuple[str, str, str], curves: Mapping[Group, Curve], everyone: Sequence[Group], *, smooth: bool
) -> Figure:
    id_, title, axis = named
    names, styles = shown_styles(list(curves), everyone)
    places = distinct([group.place for group in curves])
    rows = [
        {
            "panel": places[group.place], "series": names[group.agent], "x": x, "value": _short(value),
            "low": _short(low), "high": _short(high),
        }
        for group, curve in curves.items()
        for x, value, low, high in zip(
            *(each.tolist() for each in (curve.x, curve.mean, curve.low, curve.high)), strict=True
        )
    ]  # fmt: skip
    ends = "; ".join(
        f"{group.place}, {group.agent}: {number(float(curve.mean[-1]), 2)}" for group, curve in curves.items()
    )
    before = " A curve begins after the steps of its pretraining." if _pretrained(curves) else ""
    smoothed = " Each point is the mean over the last 5 % of a run's episodes." if smooth else ""
    size = {"width": 800, "height": 300} if len(places) == 1 else {}
    return Figure(
        id_,
        title,
        described(
            lines(rows, styles, x="environment steps", y=axis, **size),
            f"Lines of {axis} over environment steps. At the end: {ends}.",
            styles,
        ),
        f"Mean over the runs of a cell; the band is one standard deviation to each side.{smoothed}{before}",
    )


def _pretrained(groups: Iterable[Group]) -> bool:
    return any(run.pretraining_steps for group in groups for run in group.runs)


def _short(value: float) -> float:
    """Five digits are enough for a drawing."""
    return float(f"{value:.5g}")


# Reuse [P Fig. 4]

SHARES = (
    ("reused / all steps", "reused", "total_steps"),
    ("rewarded reuse / all steps", "reuse_rewarded", "total_steps"),
    ("agent alone the same / rewarded reuse", "reuse_agent_same", "reuse_rewarded"),
)
SPLIT_STYLES = {"IN": Style(0), "OUT": Style(1), "TRAIN": Style(2)}


def share_of(group: Group, split: str, part: str, whole: str) -> Summary | None:
    """One count of an evaluation as a share of another, over a group's runs; None where it was not counted."""
    found = []
    for run in group.runs:
        evaluation = run.results["evaluation"].get(split, {})
        top = number_at(evaluation, [part])
        below = total_steps(evaluation) if whole == "total_steps" else number_at(evaluation, [whole])
        if top is not None and below:
            found.append(top / below)
    return summarize(found)


def reuse_figure(groups: Sequence[Group]) -> Figure | None:
    """A panel for each place and share; shares that no run counted are left out."""
    groups = [group for group in groups if group.uses_cases]
    names, places = distinct([group.agent for group in groups]), distinct([group.place for group in groups])
    rows, told, titles = [], [], set()
    for place, same in by_place(groups):
        for title, part, whole in SHARES:
            for group in same:
                for split in group.splits:
                    if (found := share_of(group, split, part, whole)) is not None:
                        panel = _panel(places, place, title)
                        titles.add(title)
                        rows.append(_bar(panel, split.upper(), names[group.agent], found))
                        told.append(f"{panel}, {names[group.agent]}, {split.upper()}: {mean_std(found, 2)}")
    if not rows:
        return None
    splits = [split.upper() for split in splits_of(groups)]
    styles = {split: SPLIT_STYLES.get(split, Style(3)) for split in splits}
    return Figure(
        "reuse",
        "Successful reuse, and how often the neural agent alone drew the same action",
        described(
            bars(rows, styles, x="share", high=1.0, columns=len(titles)),
            f"Shares of reuse. {'; '.join(told)}.",
            styles,
        ),
        "Of all steps of the evaluation, those that reused a case, and those of them that earned a reward; of"
        " these, those for which the neural agent alone drew the same action. The paper's Figure 4 (bottom) counts"
        " those for which it would have picked a rewarded action, this one or another, which runs do not record:"
        " that share is never below ours. Lines are standard deviations.",
    )


def _bar(panel: str, series: str, name: str, found: Summary) -> Row:
    """A share: neither it nor its deviation leaves 0 to 1."""
    spread = found.std
    low, high = (None, None) if spread is None else (max(found.mean - spread, 0.0), min(found.mean + spread, 1.0))
    return {"panel": panel, "series": series, "name": name, "value": found.mean, "low": low, "high": high}


# The gap between IN and OUT [P App. H]


def gap_figure(groups: Sequence[Group]) -> Figure | None:
    """How many more steps an agent needs with unseen objects."""
    gaps = {
        group: found
        for group in groups
        if not in_points(group) and (found := gap_of_steps(group)) is not None
    }  # fmt: skip
    if not gaps:
        return None
    names, styles = shown_styles(list(gaps), groups)
    places = distinct([group.place for group in gaps])
    rows: list[Row] = [
        {
            "panel": places[group.place], "series": names[group.agent], "name": names[group.agent], "value": steps,
            "low": None, "high": None,
        }
        for group, steps in gaps.items()
    ]  # fmt: skip
    told = "; ".join(f"{group.place}, {group.agent}: {number(steps, 2)}" for group, steps in gaps.items())
    return Figure(
        "gap",
        "Out-of-distribution gap",
        described(bars(rows, styles, x="|OUT − IN|, steps"), f"Out-of-distribution gap in steps. {told}.", styles),
        "How many more (or fewer) steps an agent needs with unseen objects: the difference of the two means over"
        " the runs, as in the paper's Table 12. Shorter is better.",
    )


def gap_of_steps(group: Group) -> float | None:
    """|OUT - IN|, each the mean over the runs."""
    inside, out = (summarize(group.numbers("evaluation", split, "steps", "mean")) for split in ("in", "out"))
    return None if inside is None or out is None else abs(out.mean - inside.mean)
