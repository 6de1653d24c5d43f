"""What a notebook shows of a run, of its memory, and of a decision: HTML in which every text is escaped.

Nothing heavy is imported: a run that was not opened is shown from its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_open.explanations import VERDICTS, origin_text
from cbr_open.results import result_rows
from cbrcore.errors import printable
from cbrcore.recipe.model import PARTS
from cbrcore.runs.folder import RESULTS_FILE

if TYPE_CHECKING:
    from jinja2 import Template

    from cbr_open.door import Run, RunMemory
    from cbr_open.why import Why

TEMPLATES = Path(__file__).parent / "templates"
CASES, ACTIONS = 50, 20
"""Rows of a table of cases, and of actions; the data has all."""


def run_html(run: Run) -> str:
    """A run: its table of results, how it was measured, and its recipe in short."""
    finished = (run.path / RESULTS_FILE).is_file()
    results: Mapping[str, Any] = run.results if finished else {}
    tables, notes = result_rows(dict(results)) if finished else ([], [])
    recipe = run.recipe
    return _template("run").render(
        path=run.path,
        name=recipe.get("name", run.path.name),
        tables=tables,
        notes=notes,
        protocol=_protocol(results.get("protocol", {})),
        parts=[(key, recipe[key]["use"]) for key in PARTS if isinstance(recipe.get(key), Mapping)],
        seed=recipe.get("seed", 0),
        budget={
            key: value
            for key, value in recipe.get("run", {}).items()
            if key in ("episodes", "env_steps") and value
        },
        episodes=len(run.metrics),
    )


def _protocol(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Handicaps first; the games are a number."""
    games = [(f"games {split}", str(len(found))) for split, found in protocol.get("games", {}).items()]
    told = [(f"handicap: {name}", str(value)) for name, value in protocol.get("handicaps", {}).items()]
    rest = [
        (key, str(value))
        for key, value in protocol.items()
        if key not in ("games", "handicaps") and value is not None
    ]
    return [*told, *rest, *games]


def memory_html(memory: RunMemory) -> str:
    """The cases of a memory: the first ones, in the order in which they were retained."""
    cases = list(memory)
    return _template("memory").render(cases=cases[:CASES], count=len(cases))


def why_html(why: Why) -> str:
    """A decision: what was seen, what was retrieved with its relevance, and what was admissible with pi."""
    likely = sorted(why.probabilities.items(), key=lambda pair: -pair[1])
    agent = why.decision.agent_action
    return _template("why").render(
        why=why,
        told=why.explanation,
        likely=likely[:ACTIONS],
        more=max(0, len(likely) - ACTIONS),
        agent=agent,
        verdicts=VERDICTS,
        origin=origin_text,
    )


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    return made.get_template(f"{name}.html.j2")


def _harmless(value: Any) -> Any:
    """A text without control characters; what is marked as HTML stays as it is."""
    return printable(value, keep="\n\t") if type(value) is str else value
