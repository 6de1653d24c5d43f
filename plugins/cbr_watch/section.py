"""The section "Decisions": single ones as heat maps with their explanation, and what was retrieved as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from cbr_open.explanations import VERDICTS, Lines, decision_lines, origin_of, result_line
from cbr_report.charts import can_draw, described
from cbr_report.runs import Runs
from cbr_report.tables import NOTHING, number, text_columns
from cbr_watch.decisions import FALLBACK, REUSE, Example, decision_examples, shown
from cbr_watch.heat import context_text, heat_map, value_text
from cbrcore import Case, Column, EntityTuple, Figure, Section, Table

LEAD = (
    "Single decisions of trained agents, weights and memory frozen, in the first game plays that the evaluation"
    " measured: of each kind the most telling one. For them alone these plays were played again."
)
SEEN, WIDTH = 320, 100
"""Letters of an observation that are shown, and of a line."""
TITLES = {REUSE: "Reuse", FALLBACK: "Fallback to the neural agent"}


def decisions(runs: Runs) -> Section | None:
    """The section; None if no run may be opened, or none shows a decision."""
    examples = decision_examples(runs) if runs.options.decisions else []
    if not examples:
        return None
    figures = decision_figures(examples) if can_draw() else []
    return Section("about-decisions", "Decisions", [*figures, *decision_table(examples)], lead=LEAD, order=30)


def decision_figures(examples: Sequence[Example]) -> list[Figure]:
    """A heat map for each decision, with its explanation below."""
    return [_figure(example, f"decision_{position}_{example.kind}") for position, example in enumerate(examples)]


def _figure(example: Example, id_: str) -> Figure:
    rows, columns = shown(example)
    title = f"{TITLES[example.kind]}: {example.step.explained.action} ({_who(example)})"
    return Figure(
        id_,
        title,
        described(heat_map(example, rows, columns), _description(example, rows, columns), {}),
        _caption(example, rows, columns),
        lines=tuple(explanation(example)),
    )


def _who(example: Example) -> str:
    return f"{example.group.place}, {example.group.agent}"


def _description(example: Example, rows: Sequence[int], columns: Sequence[int]) -> str:
    """For those who do not see the map: its size, the best case of each context, and why it was decided so."""
    compared = example.compared
    best = "; ".join(
        f"{context_text(compared.contexts[column])}: {value_text(float(compared.values[rows, column].max()))}"
        for column in columns
    )
    return (
        f"Heat map of the similarities of {len(rows)} cases with {len(columns)} contexts."
        f" tau is {example.tau:.2f}. The highest one of each context: {best}."
        f" The decision: {example.step.explained.reason}."
    )


def _caption(example: Example, rows: Sequence[int], columns: Sequence[int]) -> str:
    compared = example.compared
    return (
        "A number is the similarity of a case in memory (row) with a context of this step (column: the entities of"
        f" one or more actions). Rows: {_share(rows, compared.cases, 'cases')}. Columns:"
        f" {_share(columns, compared.contexts, 'contexts')}. The most similar case of a context is retrieved if it"
        " is above tau; its template must take as many entities."
    )


def _share(taken: Sequence[int], of: Sequence[object], what: str) -> str:
    words = f"{len(taken)} of {len(of)} {what}"
    return words if len(taken) == len(of) else f"{words}, the most similar ones"


def explanation(example: Example) -> Lines:
    """Where it was, what was seen, why it was decided so, and what came of it."""
    step = example.step
    where = f"{step.start.game}, split {step.start.split!r}, pass {step.start.number}, step {step.number}"
    return [
        ("quiet", f"  game       {where}"),
        *(("plain", line) for line in _seen(step.observation.text)),
        *decision_lines(step.explained),
        result_line(step.result, scored=step.start.scored),
    ]


def _seen(observation: str) -> list[str]:
    """The observation, shortened, in lines that begin where those of `decision_lines` do."""
    words = textwrap.shorten(observation, SEEN, placeholder=" …")
    return textwrap.wrap(words, WIDTH, initial_indent="  sees       ", subsequent_indent=" " * 13)


# What was retrieved


def decision_table(examples: Sequence[Example]) -> list[Table]:
    """Every case that was retrieved for the decisions; the nearest one where none was."""
    if not examples:
        return []
    return [
        Table(
            "decisions",
            "What was retrieved for these decisions",
            (
                *text_columns("Games", "Agent", "Executed", "By", "Context"),
                *(Column("Relevance"), Column("tau")),
                *text_columns("Case", "Game of the case"),
                *(Column("Episode"), Column("Step")),
                *text_columns("Reused as", "Revise"),
            ),
            tuple(row for example in examples for row in _rows(example)),
            note="Where nothing was retrieved, the nearest case is told.",
        )
    ]


def _rows(example: Example) -> Iterator[tuple[str, ...]]:
    step = example.step
    start = (example.group.place, example.group.agent, step.explained.action, step.explained.source)
    candidates = step.decision.candidates
    for each in candidates:
        verdict = "reused" if each is step.decision.chosen else VERDICTS[each.verdict]
        match = _match(each.seeds, each.match.relevance, example.tau, each.match.case)
        yield (*start, *match, each.action.text, verdict)
    nearest = step.explained.nearest
    if not candidates and nearest is not None:
        (case,) = (case for case in example.compared.cases if case.id == nearest.case)
        above = nearest.relevance > example.tau
        why = "another number of entities" if above else "not similar enough"
        yield (*start, *_match(nearest.context, nearest.relevance, example.tau, case), NOTHING, why)


def _match(context: EntityTuple, relevance: float, tau: float, case: Case) -> tuple[str, ...]:
    numbers, origin = (number(relevance, 2), number(tau, 2)), origin_of(case)
    where = (origin.game, str(origin.episode), str(origin.step))
    return (context_text(context), *numbers, f"#{case.id} {case.text}", *where)
