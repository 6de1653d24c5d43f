"""What several commands share: options, loading of plugins and recipes, and how things are said."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a setting; may be repeated.")
]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Load a plugin from a .py file; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None, typer.Option(help="Where the networks run; overrides the recipe.")
]


def plugins_of(files: Sequence[Path]) -> PluginReport:
    """Load the plugins; those that could not be loaded are named on stderr."""
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=files)
    for problem in report.problems():
        say(f"warning: {problem}")
    return report


def checked_recipe(path: Path, sets: Sequence[str], plugins: Sequence[Path]) -> tuple[Recipe, PluginReport]:
    """Load plugins and recipe: what every command on a recipe starts with."""
    from cbrcore.recipe import load_recipe

    report = plugins_of(plugins)
    return load_recipe(path, overrides=sets, registry=report.registry), report


def overrides_of(sets: Sequence[str] | None, seed: int | None, device: str | None) -> list[str]:
    """All overrides, in the form of --set."""
    options = {"seed": seed, "run.device": device}
    return [*(sets or ()), *(f"{path}={value}" for path, value in options.items() if value is not None)]


def say(message: str) -> None:
    typer.echo(message, err=True)


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Rows under a header: plain text, or a table on a terminal."""
    from cbrcore.listing import aligned, rich_table

    if not sys.stdout.isatty():
        typer.echo(aligned(rows))
        return
    from rich.console import Console

    Console().print(rich_table(rows))
