"""What is offered to who types: completions of an argument (`cbrcore.console.completing`), and what to type next.

Completions are asked for at every press of the key: no more is read than names of files, and what plugins declare.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cbr_find.shipped import recipe_files
from cbrcore.runs.folder import RECIPE_FILE, run_command

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport

RUNS = "runs"
SWEEP_FILE = "sweep.json"
NO_SETTINGS = ("command", "check", "report_section")
"""Kinds that `cbr show` has nothing to tell about."""


def recipes(incomplete: str) -> list[str]:
    """Those that came with the package, and those of the working directory; other files offers the shell."""
    return [recipe.path for recipe in recipe_files() if recipe.path.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Folders of runs and sweeps: in runs/ and here, or in the folder that is typed."""
    parents = [incomplete.rpartition("/")[0] or "/"] if "/" in incomplete else ["", RUNS]
    return [path for parent in parents for path in _runs_in(parent) if path.startswith(incomplete)]


def _runs_in(parent: str) -> Iterator[str]:
    folder = Path(parent).expanduser()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (path / RECIPE_FILE).is_file() or (path / SWEEP_FILE).is_file():
            yield f"{parent.rstrip('/')}/{path.name}" if parent else path.name


def components(incomplete: str) -> list[str]:
    """What `cbr show` knows: components, kinds of parts, sections of a recipe."""
    from cbrcore.console import plugins_of
    from cbrcore.recipe.model import PARTS, SECTIONS

    registry = plugins_of(quiet=True).registry
    qualified = [component.qualified for component in registry if component.kind not in NO_SETTINGS]
    sections = [component.name for component in registry.of_kind("recipe_section")]
    names = dict.fromkeys([*PARTS, *SECTIONS, *sections, *qualified])
    return [name for name in names if name.startswith(incomplete)]


def next_steps(folder: Path, recipe: Recipe, report: PluginReport) -> Iterator[str]:
    """What to type about the run in `folder`, of the commands that there are."""
    offered = [component.name for component in report.registry.of_kind("command")]
    short = folder.relative_to(here) if folder.is_relative_to(here := Path.cwd()) else folder
    yield from (run_command(name, short) for name in ("report", "play") if name in offered)
    if recipe.uses_cases and "cases" in offered:
        yield f"cbr cases {shlex.quote(str(short))}"
