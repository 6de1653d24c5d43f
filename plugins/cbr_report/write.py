"""What `cbr report` does: folders in; a page, its tables as Markdown and as CSV, its figures as files out."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cbr_isolate.files import fault_of
from cbr_report.charts import INSTALL, can_draw
from cbr_report.comparable import remarks
from cbr_report.folders import read_folders
from cbr_report.names import BringsWords, OwnWords, Vocabulary, name_runs
from cbr_report.offered import Offered, make_section, offered_sections
from cbr_report.page import render
from cbr_report.protocol import commands
from cbr_report.runs import Options, Runs, doubles, group
from cbr_report.specs import figure_data, page_script, write_figures
from cbr_report.tables import as_csv, as_markdown
from cbr_report.theme import PALETTES
from cbrcore import CbrError, Figure, Section, Table, __version__
from cbrcore.errors import os_failure
from cbrcore.runs.folder import write_atomically

if TYPE_CHECKING:
    from cbrcore.plugins import PluginReport

PAGE = "report.html"
TITLE = "Case-based reasoning in text games"
LEAD = "Agents that retrieve, reuse, revise and retain cases: what these runs measured."


@dataclass(frozen=True)
class Written:
    """The files of a report, and what was missing, damaged or not comparable."""

    page: Path
    markdown: Path
    tables: Path
    runs: int
    notes: Sequence[str]
    figures: Path | None = None


def write_report(
    folders: Sequence[Path],
    plugins: PluginReport,
    *,
    out: Path | None = None,
    paper: Path | None = None,
    decisions: bool = True,
    figures: Path | None = None,
) -> Written:
    """Read the runs in the folders, and write the page, its tables and perhaps its figures.

    Args:
        out: the page; report.html in the folder, or here if there are several folders.
        paper: the file of the paper's numbers, if it is not in recipes/tables.
        decisions: whether runs may be opened and play, to show single decisions.
        figures: a folder for every figure as SVG and PDF.

    Raises:
        RunFolderError: a folder holds no run.
        CbrError: a file that was named is wrong, figures are wanted and cannot be drawn here, or nothing can be
            written there.
    """
    if figures is not None and not can_draw():
        raise CbrError("figures need altair and vl-convert-python", hint=INSTALL)
    page = out or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    if os.path.lexists(page) and not page.is_file():
        raise CbrError(f"{page}: {fault_of(page)}", hint=f"name a file: --out {PAGE}")
    _refuse_to_replace(page)
    runs, sections = sections_about(folders, plugins, Options(folders, page, paper, decisions))
    try:
        written = _write(runs, sections, page)
        if figures is not None:
            drawn = [part for section in sections for part in section.parts if isinstance(part, Figure)]
            runs.notes += write_figures(drawn, figures)
    except OSError as error:
        raise os_failure(error, page) from error
    return Written(*written, len(runs), [*runs.notes, *remarks(runs.groups)], figures)


def _refuse_to_replace(page: Path) -> None:
    """CbrError: the page's Markdown would be the page itself, or replace a file of somebody's own."""
    tables = page.with_suffix(".md")
    if page == tables:
        hint = f"--out {shlex.quote(str(page.with_suffix('.html')))}"
        raise CbrError(f"{page}: the page is HTML; its tables go to a .md", hint=hint)
    if tables.is_file() and not page.exists():
        with tables.open(encoding="utf-8", errors="replace") as file:
            if not file.readline().startswith(f"# {TITLE}"):
                hint = f"name another page, or remove it: rm {shlex.quote(str(tables))}"
                raise CbrError(f"{tables} is there and no report's; the page's tables go there", hint=hint)


def sections_about(folders: Sequence[Path], plugins: PluginReport, options: Options) -> tuple[Runs, list[Section]]:
    """The runs, named, and all sections about them in their order. What goes wrong is in the runs' notes."""
    found = read_folders(folders)
    runs = Runs(group(found.runs), plugins, options, sweeps=found.sweeps, notes=found.notes)
    offered = offered_sections(runs)
    name_runs(runs, _vocabulary(offered, runs))
    runs.notes += doubles(runs.groups)
    taken: set[str] = set()
    made = [section for each in offered if (section := make_section(each, runs, taken)) is not None]
    return runs, sorted(made, key=lambda section: section.order)


def _vocabulary(offered: Sequence[Offered], runs: Runs) -> Vocabulary:
    """The words of the first section that brings any."""
    for each in offered:
        if isinstance(each.factory, BringsWords):
            try:
                return each.factory.vocabulary(runs)
            except CbrError:
                raise
            except (Exception, SystemExit) as error:  # a plugin must not cost the page
                runs.notes.append(f"no names from {each.says}: {type(error).__name__}: {error}")
    if runs.options.paper is not None:
        raise CbrError(f"--paper {runs.options.paper}: no plugin that is loaded reads it", hint="load cbr_paper")
    return OwnWords()


def _write(runs: Runs, sections: Sequence[Section], page: Path) -> tuple[Path, Path, Path]:
    """The page, its Markdown and the folder of its tables."""
    tables = [part for section in sections for part in section.parts if isinstance(part, Table)]
    markdown, folder = page.with_suffix(".md"), page.with_name(f"{page.stem}_tables")
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        write_atomically(folder / f"{table.id}.csv", as_csv(table))
    write_atomically(markdown, f"# {TITLE}\n\n{LEAD}\n\n" + "\n".join(map(as_markdown, tables)))
    write_atomically(page, _html(runs, sections))
    return page, markdown, folder


def _html(runs: Runs, sections: Sequence[Section]) -> str:
    data, problems = figure_data(sections)
    runs.notes += problems
    if not can_draw():
        runs.notes.append(f"no figures: altair and vl-convert-python are not installed ({INSTALL})")
    places = {group.place for group in runs.groups}
    return render(
        "report.html.j2",
        title=TITLE,
        lead=LEAD,
        footer=f"Made by cbr {__version__} from the runs' own records.",
        facts=[
            (str(len(runs)), "runs"),
            (str(len({each.agent for each in runs.groups})), "agents"),
            (str(len(places)), "sets of games" if len(places) > 1 else "set of games"),
            (str(len({run.seed for run in runs})), "seeds"),
        ],
        sections=[section for section in sections if section.parts],
        notes=runs.notes,
        data=data,
        palettes=PALETTES,
        vega=page_script() if data else "",
        commands=commands(runs.groups, runs.sweeps, runs.options.folders, runs.options.page),
    )
