"""Figures of single numbers: reuse [P Fig. 4], the gap [P App. H], and our numbers on the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cbrcore.report.belong import Paper
from cbrcore.report.compared import our_summary
from cbrcore.report.figure import Figure, Styles
from cbrcore.report.marks import Mark, label_width, mark_panel
from cbrcore.report.measures import in_points, splits_of, total_steps
from cbrcore.report.paper import PaperTable
from cbrcore.report.results import by_place
from cbrcore.report.runs import Group, number_at
from cbrcore.report.statistics import Summary, summarize
from cbrcore.report.svg import Panel, Style, drawing
from cbrcore.report.tables import number

# Reuse [P Fig. 4]

SHARES = (
    ("reused / all steps", "reused", "total_steps"),
    ("rewarded reuse / all steps", "reuse_rewarded", "total_steps"),
    ("agent alone the same / rewarded reuse", "reuse_agent_same", "reuse_rewarded"),
)
SPLIT_STYLES = {"in": Style(0), "out": Style(1), "train": Style(2)}


def share(run_evaluation: Mapping[str, object], part: str, whole: str) -> float | None:
    """One count of an evaluation as a share of another; None where it was not counted, or of nothing."""
    top = number_at(run_evaluation, [part])
    below = total_steps(run_evaluation) if whole == "total_steps" else number_at(run_evaluation, [whole])
    return None if top is None or not below else top / below


def share_of(group: Group, split: str, part: str, whole: str) -> Summary | None:
    """The share over the runs of a group."""
    found = (share(run.results["evaluation"].get(split, {}), part, whole) for run in group.runs)
    return summarize([value for value in found if value is not None])


def reuse(groups: Sequence[Group]) -> Iterator[Figure]:
    """One row of panels per place; shares that no run counted are left out."""
    places = list(by_place([group for group in groups if group.uses_cases]))
    rows = {(place, each): _share_rows(same, each) for place, same in places for each in SHARES}
    shown = [each for each in SHARES if any(rows[place, each] for place, _ in places)]
    panels = [
        _share_panel(each[0], place, rows[place, each], first=each is shown[0])
        for place, _ in places
        for each in shown
    ]
    marks = [(place, each[0], mark) for (place, each), found in rows.items() for _, of in found for mark in of]
    splits = splits_of([group for _, same in places for group in same])
    if panels:
        words = "; ".join(f"{place}, {m.name}, {title}: {number(m.value, 2)}" for place, title, m in marks)
        yield Figure(
            "reuse",
            "Successful reuse, and what the neural agent alone would have done",
            drawing("reuse", "Shares of reuse", words, panels, columns=len(shown)),
            "Of all steps of the evaluation, those that reused a case, and those of them that earned a reward; of"
            " these, those for which the neural agent alone drew the same action. Lines are standard deviations.",
            tuple((split.upper(), _split_style(split)) for split in splits),
        )


def _share_rows(groups: Sequence[Group], each: tuple[str, str, str]) -> list[tuple[str, list[Mark]]]:
    """(agent, a mark per split), of the agents whose runs counted it."""
    _, part, whole = each
    rows = []
    for group in groups:
        marks = [
            Mark(f"{group.agent}, {split.upper()}", _split_style(split), found.mean, found.std)
            for split in group.splits
            if (found := share_of(group, split, part, whole))
        ]
        if marks:
            rows.append((group.agent, marks))
    return rows


def _split_style(split: str) -> Style:
    return SPLIT_STYLES.get(split, Style(3))


def _share_panel(title: str, place: str, rows: Sequence[tuple[str, Sequence[Mark]]], *, first: bool) -> Panel:
    names = label_width([label for label, _ in rows])
    return mark_panel(
        f"{place}: {title}" if first else title,
        rows,
        x_title="share",
        bars=True,
        high=1.0,
        labels=names if first else 0,
        width=270 + (names if first else 0),
    )


# The gap between IN and OUT [P App. H]


def gap(groups: Sequence[Group], styles: Styles) -> Iterator[Figure]:
    panels, words = [], []
    for place, same in by_place([group for group in groups if not in_points(group)]):
        gaps = {group: found for group in same if (found := gap_of_steps(group)) is not None}
        if gaps:
            rows = [
                (group.agent, [Mark(group.agent, styles[group.agent], steps)]) for group, steps in gaps.items()
            ]
            names = label_width([label for label, _ in rows])
            panels.append(
                mark_panel(place, rows, x_title="|OUT − IN|, steps", bars=True, labels=names, width=names + 310)
            )
            words += [f"{place}, {group.agent}: {number(steps, 2)}" for group, steps in gaps.items()]
    if panels:
        yield Figure(
            "gap",
            "Out-of-distribution gap",
            drawing("gap", "Out-of-distribution gap in steps", "; ".join(words), panels, columns=2),
            "How many more (or fewer) steps an agent needs with unseen objects: the difference of the two means"
            " over the runs, as in the paper's Table 12. Shorter is better.",
        )


def gap_of_steps(group: Group) -> float | None:
    inside, out = (summarize(group.numbers("evaluation", split, "steps", "mean")) for split in ("in", "out"))
    return None if inside is None or out is None else abs(out.mean - inside.mean)


# Ours on the paper's

PAPER_STYLE, OUR_STYLE = Style(6, dashed=True), Style(0)


def beside_the_paper(paper: Paper) -> Iterator[Figure]:
    for table in paper.shown():
        columns = (_column_panel(table, column, paper) for column in range(len(table.columns)))
        panels = [panel for panel in columns if panel]
        if panels:
            yield Figure(
                f"versus_{table.id}",
                f"{table.where}: the paper's numbers and ours",
                drawing(f"versus_{table.id}", table.title, _in_words(table, paper), panels, columns=2),
                "Means; lines are standard deviations over runs.",
                (("paper", PAPER_STYLE), ("ours", OUR_STYLE)),
            )


def _column_panel(table: PaperTable, column: int, paper: Paper) -> Panel | None:
    rows = []
    for row, cells in zip(table.rows, table.cells, strict=True):
        cell = cells[column]
        claim = paper.claim(table, cell)
        found = our_summary(cell, claim.group) if claim else None
        if found is not None and cell.value is not None:
            marks = [
                Mark("paper", PAPER_STYLE, cell.value.mean, cell.value.std),
                Mark("ours", OUR_STYLE, found.mean, found.std),
            ]
            rows.append((", ".join(table.label(word) for word in row.values()), marks))
    if not rows:
        return None
    metric = table.cells[0][column].metric
    words = [table.label(word) for key, word in table.columns[column].items() if key != "metric"]
    title = " ".join([*words, metric.title])
    names = label_width([label for label, _ in rows])
    better = f"{metric.title} ({metric.better} is better)"
    return mark_panel(title, rows, x_title=better, bars=False, labels=names, width=names + 340)


def _in_words(table: PaperTable, paper: Paper) -> str:
    return "; ".join(
        f"{', '.join(table.label(word) for word in cell.choices.values())}, {cell.metric.title}:"
        f" paper {cell.value.text}, ours {number(found.mean, 2)}"
        for row in table.cells
        for cell in row
        if cell.value and (claim := paper.claim(table, cell)) and (found := our_summary(cell, claim.group))
    )
