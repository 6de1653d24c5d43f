"""What `cbr report` does: folders in; a page, its tables as Markdown and as CSV out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cbrcore import __version__
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.plugins import PluginReport
from cbrcore.records import write_atomically
from cbrcore.report.belong import Paper, find_paper_file, read_paper
from cbrcore.report.collect import Collection, collect
from cbrcore.report.compared import paper_tables
from cbrcore.report.decision_figures import decision_figures, decision_table
from cbrcore.report.decisions import Example, decision_examples
from cbrcore.report.figure import Figure
from cbrcore.report.figures import figures
from cbrcore.report.naming import name_groups
from cbrcore.report.objects import object_maps, object_table
from cbrcore.report.page import Page, Section, as_html
from cbrcore.report.protocol import commands, protocol_tables
from cbrcore.report.results import result_tables
from cbrcore.report.runs import Group, doubles, group
from cbrcore.report.tables import Table, as_csv, as_markdown

PAGE = "report.html"
DECISIONS = (
    "Single decisions of trained agents, weights and memory frozen, in the first game plays that the evaluation"
    " measured: of each kind the most telling one."
)


@dataclass(frozen=True)
class Written:
    """The files of a report, and what was missing or damaged."""

    page: Path
    markdown: Path
    tables: Path
    runs: int
    notes: Sequence[str]


def write_report(
    folders: Sequence[Path],
    plugins: PluginReport,
    *,
    out: Path | None = None,
    paper: Path | None = None,
    decisions: bool = True,
) -> Written:
    """Read the runs in the folders, and write the page and its tables.

    Args:
        out: the page; report.html in the folder, or here if there are several folders.
        paper: the file of the paper's numbers, if it is not in recipes/tables.
        decisions: whether runs are opened and play, to show single decisions.

    Raises:
        RunFolderError: a folder holds no run.
        CbrError: the file of the paper's numbers is wrong, or nothing can be written there.
    """
    found = collect(folders)
    groups = group(found.runs)
    numbers = _paper(folders, paper, groups, plugins, found)
    name_groups(groups, numbers)
    groups.sort(key=lambda each: _order(each, numbers))
    found.notes += doubles(groups)
    page_file = out or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    examples = decision_examples(groups, plugins, found.notes) if decisions else []
    page = _page(found, groups, numbers, plugins, examples, (folders, page_file))
    return _write(page, page_file, len(found.runs))


def _paper(
    folders: Sequence[Path], file: Path | None, groups: Sequence[Group], plugins: PluginReport, found: Collection
) -> Paper:
    """The paper's tables. A file that was named must be right; one that was found may be in the way."""
    if file is not None:
        return read_paper(file, groups, plugins)
    near = find_paper_file(folders)
    if near is None:
        return Paper()
    try:
        return read_paper(near, groups, plugins)
    except CbrError as error:
        found.notes.append(f"no numbers of the paper: {error.message}")
        return Paper()


def _order(each: Group, paper: Paper) -> tuple[int, str, int, str]:
    """Places and agents in the paper's order (its list of names), others by name."""
    names = list(paper.tables[0].labels.values()) if paper.tables else []

    def rank(text: str) -> int:
        known = [place for place, name in enumerate(names) if text == name or text.startswith(f"{name} (")]
        return max(known, default=len(names))

    return rank(each.place), each.place, rank(each.agent), each.agent


def _page(
    found: Collection,
    groups: Sequence[Group],
    paper: Paper,
    plugins: PluginReport,
    examples: Sequence[Example],
    made: tuple[Sequence[Path], Path],
) -> Page:
    maps = object_maps(groups, plugins, found.notes)
    drawn = figures(groups, paper, maps)
    versus = [figure for figure in drawn if figure.id.startswith("versus_")]
    objects = [figure for figure in drawn if figure.id == "objects_map"]
    places = dict.fromkeys(each.place for each in groups)
    return Page(
        title="Case-based reasoning in text games",
        lead="Agents that retrieve, reuse, revise and retain cases: what our runs measured"
        + (", beside the numbers of the paper (Atzeni et al., ICLR 2022)." if paper.shown() else "."),
        facts=[
            (str(len(found.runs)), "runs"),
            (str(len({each.agent for each in groups})), "agents"),
            (str(len(places)), "sets of games" if len(places) > 1 else "set of games"),
            (str(len({run.seed for run in found.runs})), "seeds"),
        ],
        notes=found.notes,
        sections=[
            Section("about-paper", "Beside the paper", _interleaved(paper_tables(paper), versus)),
            Section("about-results", "Results", result_tables(groups)),
            Section("about-figures", "Figures", [figure for figure in drawn if figure not in (*versus, *objects)]),
            Section(
                "about-decisions",
                "Decisions",
                [*decision_figures(examples), *decision_table(examples)],
                lead=DECISIONS,
            ),
            Section("about-objects", "Objects", [*objects, *object_table(maps)]),
            Section("about-protocol", "Protocol", protocol_tables(groups)),
        ],
        commands=commands(groups, found.sweeps, *made),
        footer=f"Made by cbr {__version__} from the runs' own records;"
        f" {'only the plays of the decisions were played' if examples else 'nothing was run'} again.",
    )


def _interleaved(tables: Sequence[Table], versus: Sequence[Figure]) -> list[Table | Figure]:
    """Each table of the paper before its figure."""
    by_id = {figure.id.removeprefix("versus_"): figure for figure in versus}
    parts: list[Table | Figure] = []
    for table in tables:
        parts.append(table)
        if (figure := by_id.get(table.id.removeprefix("paper_"))) is not None:
            parts.append(figure)
    return parts


def _write(page: Page, file: Path, runs: int) -> Written:
    tables = [part for section in page.sections for part in section.parts if isinstance(part, Table)]
    markdown, folder = file.with_suffix(".md"), file.with_name(f"{file.stem}_tables")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table in tables:
            write_atomically(folder / f"{table.id}.csv", as_csv(table))
        write_atomically(markdown, f"# {page.title}\n\n{page.lead}\n\n" + "\n".join(map(as_markdown, tables)))
        write_atomically(file, as_html(page))
    except OSError as error:
        raise RunFolderError(
            f"{error.filename}: cannot be written: {error.strerror}", hint="choose another --out FILE.html"
        ) from error
    return Written(file, markdown, folder, runs, page.notes)
