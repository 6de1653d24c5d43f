"""One HTML page that needs nothing else: tables, figures, style and script are in it; nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cbrcore.report.figure import Figure
from cbrcore.report.style import CSS, JS
from cbrcore.report.tables import Table

WIDE = 9
"""A table of more columns is set smaller, so that it fits the page."""
LONG = 60
"""Text of more letters than this may be broken into lines."""
REFERENCES = ("uniform random", "optimal")
"""Agents that no run of ours trained."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser is told to fetch nothing."""


@dataclass(frozen=True)
class Section:
    """A part of the page: figures after tables, or the other way round."""

    id: str
    title: str
    parts: Sequence[Table | Figure]
    lead: str = ""


@dataclass(frozen=True)
class Page:
    """Everything that is on it.

    Attributes:
        facts: (number, what it counts), shown at the top.
        notes: what is missing or damaged.
        commands: what makes the runs and the page again.
    """

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    sections: Sequence[Section]
    commands: Sequence[str]
    footer: str


def as_html(page: Page) -> str:
    """The page as text."""
    sections = [section for section in page.sections if section.parts]
    links = [(section.id, section.title) for section in sections] + [("repeat", "Make it again")]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(page.title)}</title>",
            f"<style>{CSS}</style>",
            "</head>",
            "<body>",
            _header(page),
            _nav(links),
            "<main>",
            _notes(page.notes),
            *(_section(section) for section in sections),
            _commands(page.commands),
            "</main>",
            f"<footer><p>{escape(page.footer)}</p></footer>",
            f"<script>{JS}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _header(page: Page) -> str:
    facts = "".join(f"<li><b>{escape(number)}</b><span>{escape(what)}</span></li>" for number, what in page.facts)
    return (
        f'<header><h1>{escape(page.title)}</h1><p class="lead">{escape(page.lead)}</p>'
        f'<ul class="facts">{facts}</ul></header>'
    )


def _nav(links: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<li><a href="#{id_}">{escape(title)}</a></li>' for id_, title in links)
    return f'<nav aria-label="Sections"><ul>{items}</ul></nav>'


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<section id="notes"><h2>Notes</h2><div class="card problems"><ul>{items}</ul></div></section>'


def _section(section: Section) -> str:
    lead = f'<p class="lead">{escape(section.lead)}</p>' if section.lead else ""
    parts = "\n".join(table_html(part) if isinstance(part, Table) else figure_html(part) for part in section.parts)
    return f'<section id="{section.id}"><h2>{escape(section.title)}</h2>{lead}\n{parts}\n</section>'


def table_html(table: Table) -> str:
    """A table whose columns sort on click."""
    heads = "".join(
        f'<th scope="col" class="{column.kind}"><button type="button">{escape(column.title)}</button></th>'
        for column in table.columns
    )
    rows = "\n".join(_row(table, row) for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in table.remarks)
    wide = ' class="wide"' if len(table.columns) > WIDE else ""
    return (
        f'<div class="card"><h3 id="{table.id}-title">{escape(table.title)}</h3><div class="scroll">'
        f'<table id="{table.id}"{wide} aria-labelledby="{table.id}-title"><thead><tr>{heads}</tr></thead><tbody>\n'
        f"{rows}\n</tbody></table></div>{note}"
        f'{f"""<ul class="remarks">{remarks}</ul>""" if remarks else ""}</div>'
    )


def _row(table: Table, row: Sequence[str]) -> str:
    aside = ' class="aside"' if any(cell in REFERENCES for cell in row[:2]) else ""
    cells = "".join(
        f'<td class="{column.kind}{" long" if len(cell) > LONG else ""}">{escape(cell)}</td>'
        for column, cell in zip(table.columns, row, strict=True)
    )
    return f"<tr{aside}>{cells}</tr>"


def figure_html(figure: Figure) -> str:
    """An image with its title, legend, caption and lines."""
    legend = "".join(f'<li><i class="{style.classes}"></i>{escape(name)}</li>' for name, style in figure.legend)
    return (
        f'<figure class="card" id="{figure.id}"><h3>{escape(figure.title)}</h3>'
        f'{f"""<ul class="legend">{legend}</ul>""" if legend else ""}'
        f'<div class="scroll">{figure.svg}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption>{_lines(figure)}</figure>"
    )


def _lines(figure: Figure) -> str:
    lines = "\n".join(f'<span class="line-{kind}">{escape(words)}</span>' for kind, words in figure.lines)
    return f'<pre class="lines">{lines}</pre>' if lines else ""


def _commands(commands: Sequence[str]) -> str:
    text = escape("\n".join(commands))
    return (
        '<section id="repeat"><h2>Make it again</h2><div class="card"><details open><summary>Commands</summary>'
        f"<pre><code>{text}</code></pre></details></div></section>"
    )
