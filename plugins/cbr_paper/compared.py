"""Our numbers beside the paper's, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cbr_paper.belong import Claim, Paper
from cbr_paper.deviations import deviations
from cbr_paper.paper import PaperCell, PaperTable, PaperValue
from cbr_paper.paper_file import Metric
from cbr_report.comparable import baselines, handicap_marks, protocol_marks, remarks
from cbr_report.measures import LAST_100, points
from cbr_report.runs import Group
from cbr_report.statistics import Summary, summarize
from cbr_report.tables import NOTHING, mean_std, number
from cbrcore import Column, Table

Find = Callable[[PaperCell, Group], str]
"""What a reference agent has in a column, from runs of that column; those that did not play alike stand apart."""
SAME_AS = 6
"""So many differences are listed; the rest is counted."""


def paper_tables(paper: Paper) -> list[Table]:
    """Each table of the paper that we have a number for: the paper's and our number in every cell.

    Columns without any number of ours are left out, but for those that the paper cites; and so are games.
    """
    first: dict[str | None, PaperTable] = {}
    return [
        _table(_ours_only(table, paper), first.setdefault(table.recipe, table), paper) for table in paper.shown()
    ]


def _ours_only(table: PaperTable, paper: Paper) -> PaperTable:
    kept = [
        number
        for number in range(len(table.columns))
        if any(row[number].cited or paper.claim(table, row[number]) for row in table.cells)
    ]
    rows = [
        number
        for number, cells in enumerate(table.cells)
        if "environment.game" not in table.rows[number] or any(paper.claim(table, cell) for cell in cells)
    ]
    return replace(
        table,
        columns=tuple(table.columns[number] for number in kept),
        rows=tuple(table.rows[number] for number in rows),
        cells=tuple(tuple(table.cells[row][number] for number in kept) for row in rows),
    )


def _table(table: PaperTable, first: PaperTable, paper: Paper) -> Table:
    """`first`: the first table of these runs; what is to be remarked on them stands there."""
    same = "" if first.id == table.id else f" The runs are those of {first.where}."
    return Table(
        f"paper_{table.id}",
        f"{table.where}: {table.title}",
        (*_row_columns(table), *_columns(table, marked=_comparable(_claimed(table, paper)))),
        (*_rows(table, paper), *_reference_rows(table, paper)),
        note=f"{_says(table)}Each cell twice: as the paper prints it, and ours (over so many runs).{same}",
        remarks=(*(() if same else _remarks(table, paper)), *_deviations(table, paper)),
    )


def _says(table: PaperTable) -> str:
    return f"{table.says.strip()} " if table.says else ""


def _rows_are_agents(table: PaperTable) -> bool:
    """Whether a column holds numbers of one game or level, so that the best of it can be told."""
    return all("variants" in row for row in table.rows)


def _row_columns(table: PaperTable) -> list[Column]:
    titles = {"variants": "Agent", "environment.game": "Game", "environment.level": "Level", "split": "Split"}
    keys = dict.fromkeys(key for row in table.rows for key in row)
    return [Column(titles.get(key, key), "text" if key == "variants" else "text group") for key in keys]


def _comparable(groups: Sequence[Group]) -> bool:
    """Whether the best of ours can be told: all were measured alike, and trained for as long; what an agent with
    cases plays before, to pretrain its retriever, belongs to it."""
    return len({group.budget.partition(" + ")[0] for group in groups}) < 2 and not protocol_marks(groups)


def _columns(table: PaperTable, *, marked: bool) -> Iterator[Column]:
    """`marked`: whether the best of ours is; that of the paper is in any case."""
    for column, cell in zip(table.columns, table.cells[0], strict=True):
        words = [_word(key, word, cell, table) for key, word in column.items()]
        title = " ".join(words)
        better = f" {cell.metric.better}" if _rows_are_agents(table) else ""
        yield Column(f"{title}, paper", f"paper{better}")
        if "cited" not in column:
            yield Column(f"{title}, ours", f"ours{better if marked else ''}")


def _word(key: str, word: str, cell: PaperCell, table: PaperTable) -> str:
    return cell.metric.title if key == "metric" else table.label(word)


def _rows(table: PaperTable, paper: Paper) -> Iterator[tuple[str, ...]]:
    keys = dict.fromkeys(key for row in table.rows for key in row)
    groups = _claimed(table, paper)
    marks = [found for found in (protocol_marks(groups), handicap_marks(groups)) if found]
    for row, cells in zip(table.rows, table.cells, strict=True):
        yield (
            *(table.label(row[key]) if key in row else NOTHING for key in keys),
            *(text for cell in cells for text in _both(cell, paper.claim(table, cell), marks)),
        )


def _both(cell: PaperCell, claim: Claim | None, marks: Sequence[Mapping[Group, str]]) -> list[str]:
    """What the paper prints, and our number; with marks where our agents were not measured alike."""
    theirs = NOTHING if cell.value is None else cell.value.text
    if cell.cited is not None:
        return [theirs]
    mark = ", ".join(found[claim.group] for found in marks) if claim else ""
    return [theirs, ours(cell, claim) + (f" [{mark}]" if mark else "")]


def ours(cell: PaperCell, claim: Claim | None) -> str:
    """ "15.20 ± 1.10 (5)": our number for the cell, and of how many runs."""
    if claim is None:
        return NOTHING
    summary = our_summary(cell, claim.group)
    text = mean_std(summary, digits_of(cell.value))
    return text if summary is None else f"{text} ({summary.runs})"


def our_summary(cell: PaperCell, group: Group) -> Summary | None:
    """The number that the cell is about, over the group's runs; of scores the one by their protocol, P1 or P2.

    A gap is of two means, so it has no deviation.
    """
    if not cell.metric.gap:
        keys = cell.metric.keys(cell.split)
        return summarize(points(group)[0].of(group) if keys[-1] == LAST_100 else group.numbers(*keys))
    gap = gap_of(group, cell.metric)
    if gap is None:
        return None
    return Summary(len(group.runs), gap, None, gap, None, None)


def gap_of(group: Group, metric: Metric) -> float | None:
    """|OUT - IN|, each the mean over the runs [P App. H]."""
    inside, out = (summarize(group.numbers(*metric.keys(split))) for split in ("in", "out"))
    return None if inside is None or out is None else abs(out.mean - inside.mean)


def digits_of(value: PaperValue | None) -> int:
    """As many as the paper prints; two where it prints none, one for a whole number."""
    if value is None:
        return 2
    return max(1, len(value.text.split(" ")[0].partition(".")[2]))


def _reference_rows(table: PaperTable, paper: Paper) -> Iterator[tuple[str, ...]]:
    """The uniform random and the optimal agent under every column that is of a level and a split (or a gap)."""
    if any("cited" in column or "variants" in column for column in table.columns):
        return
    heads = dict.fromkeys(key for row in table.rows for key in row)
    for split in dict.fromkeys(row.get("split", "") for row in table.rows):
        of_split = [
            cells for row, cells in zip(table.rows, table.cells, strict=True) if row.get("split", "") == split
        ]
        for name, find in (("uniform random", _random), ("optimal", _optimal)):
            texts = [
                _reference(table, [row[column] for row in of_split], paper, find)
                for column in range(len(table.columns))
            ]
            if any(text != NOTHING for text in texts):
                head = [
                    name if key == "variants" else table.label(split) if key == "split" else NOTHING
                    for key in heads
                ]
                yield (*head, *(text for each in texts for text in (NOTHING, each)))


def _reference(table: PaperTable, cells: Sequence[PaperCell], paper: Paper, find: Find) -> str:
    groups = [claim.group for cell in cells if (claim := paper.claim(table, cell))]
    texts = dict.fromkeys(find(cells[0], each.runs) for each in baselines(groups))
    return " / ".join(text for text in texts if text != NOTHING) or NOTHING


def _random(cell: PaperCell, group: Group) -> str:
    if cell.metric.gap:
        means = [summarize(group.numbers(*_of_random(cell.metric.keys(split)))) for split in ("in", "out")]
        known = [found.mean for found in means if found is not None]
        return number(abs(known[1] - known[0]), digits_of(cell.value)) if len(known) == len(means) else NOTHING
    return mean_std(summarize(group.numbers(*_of_random(cell.metric.keys(cell.split)))), digits_of(cell.value))


def _of_random(keys: tuple[str, ...]) -> tuple[str, ...]:
    """evaluation.in.steps.mean -> evaluation.in.random.steps.mean"""
    return (*keys[:2], "random", *keys[2:]) if keys[0] == "evaluation" else ("evaluation", "train", "random")


def _optimal(cell: PaperCell, group: Group) -> str:
    if cell.metric.gap or cell.split is None:
        return NOTHING
    if "norm_score" in cell.metric.reads:
        return "1.00"
    found = group.numbers("evaluation", cell.split, "optimal_steps")
    return number(found[0] if found else None, digits_of(cell.value))


def _remarks(table: PaperTable, paper: Paper) -> Iterator[str]:
    """Whose settings are not those of the sweep, and which numbers are left out for others; what is to be said of
    several groups is said once."""
    said: dict[str, list[Group]] = {}
    cells = [cell for row in table.cells for cell in row]
    claims = {id(claim.group): (cell, claim) for cell in cells if (claim := paper.claim(table, cell))}
    for cell, claim in claims.values():
        if claim.differences:
            words = f"not exactly the run of {table.recipe}: {_listed(claim.differences)}"
            said.setdefault(words, []).append(claim.group)
        for other in paper.others(table, cell):
            words = f"{other.group.agent} fits as well, with: {_listed(other.differences)}"
            said.setdefault(words, []).append(claim.group)
    yield from (f"{_named(groups)}: {words}" for words, groups in said.items())
    yield from remarks(_claimed(table, paper))


def _deviations(table: PaperTable, paper: Paper) -> Iterator[str]:
    """What in the runs of the table is not as in the paper; agents that have it in common stand together."""
    groups = _claimed(table, paper)
    having: dict[str, list[Group]] = {}
    for group in groups:
        for text in deviations(group, table.recipe):
            having.setdefault(text, []).append(group)
    together: dict[tuple[int, ...], list[str]] = {}
    for text, who in having.items():
        together.setdefault(tuple(map(id, who)), []).append(text)
    for texts in together.values():
        who = having[texts[0]]
        yield f"{'All runs' if len(who) == len(groups) else _named(who)}: not as in the paper: {'; '.join(texts)}"


def _claimed(table: PaperTable, paper: Paper) -> list[Group]:
    """The groups whose numbers stand in a table, place by place."""
    cells = [cell for row in table.cells for cell in row]
    groups = {id(claim.group): claim.group for cell in cells if (claim := paper.claim(table, cell))}
    return sorted(groups.values(), key=lambda group: group.place)


def _named(groups: Sequence[Group]) -> str:
    """ "Text, TPC (Easy, Hard); BiKE (Easy)": agents that are meant at the same places stand together."""
    places: dict[str, list[str]] = {}
    for group in groups:
        places.setdefault(group.agent, []).append(group.place)
    agents: dict[tuple[str, ...], list[str]] = {}
    for agent, where in places.items():
        agents.setdefault(tuple(where), []).append(agent)
    return "; ".join(f"{', '.join(names)} ({', '.join(where)})" for where, names in agents.items())


def _listed(differences: Sequence[str]) -> str:
    if not differences:
        return "no difference"
    more = len(differences) - SAME_AS
    return "; ".join(differences[:SAME_AS]) + (f"; and {more} more" if more > 0 else "")
