"""The model card of a shared run: Markdown that tells what it is, how good it is, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cbr_open.results import results_table
from cbr_share.manifest import Manifest
from cbrcore.config import RunConfig
from cbrcore.errors import printable
from cbrcore.recipe.model import PARTS

TEMPLATE = Path(__file__).parent / "templates" / "card.md.j2"
SHOWN_GAMES = 30
"""Names of games of a split that are written out."""


def card(
    file: str,
    sha256: str,
    manifest: Manifest,
    recipe: Mapping[str, Any],
    results: Mapping[str, Any],
    versions: Mapping[str, Any],
) -> str:
    """The card of a file of this name.

    Args:
        sha256: of the file.
    """
    from jinja2 import Environment, StrictUndefined

    made = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["code"] = code
    evaluation = results["evaluation"]
    return made.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        file=file,
        sha256=sha256,
        manifest=manifest,
        parts=[(kind, recipe[kind]["use"]) for kind in PARTS if isinstance(recipe.get(kind), Mapping)],
        uses_cases="memory" in recipe,
        seed=recipe["seed"],
        budget=_budget(recipe["run"]),
        training=results["training"],
        passes={split: found.get("random", {}).get("passes") for split, found in evaluation.items()},
        protocol=results["protocol"],
        games={split: list(games) for split, games in results["protocol"]["games"].items()},
        shown_games=SHOWN_GAMES,
        table=results_table(dict(results)),
        versions=versions,
    )


def _budget(run: Mapping[str, Any]) -> str:
    unit = "passes over the training games" if run.get("episodes") is not None else "environment steps"
    budget = run.get("episodes") if run.get("episodes") is not None else run.get("env_steps")
    default = RunConfig.model_fields["num_envs"].default
    at_once = run.get("num_envs", default)
    return f"{budget:,} {unit}" + (f", {at_once} games at the same time" if at_once != default else "")


def code(text: object) -> str:
    """A text as Markdown code, on one line, whatever is in it."""
    shown = printable(str(text)).replace("`", "'").replace("|", "¦")
    return f"`{shown}`"
