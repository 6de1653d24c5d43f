"""From a recipe and the command line to the runs of a sweep and the launcher that executes them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from cbr_sweep.axes import SweepRun
from cbr_sweep.folder import SHOWN, Planned
from cbrcore.config import Recipe
from cbrcore.errors import CbrError, RecipeError
from cbrcore.interfaces import Build, Launcher
from cbrcore.recipe import load_recipe
from cbrcore.recipe.model import settings_class
from cbrcore.recipe.text import parse
from cbrcore.recipe.words import check
from cbrcore.registry import Registry


def chosen(runs: Sequence[SweepRun], pattern: str | None) -> list[SweepRun]:
    """The runs whose id fits the pattern (``*`` and ``?``); all of them without one.

    Raises:
        CbrError: none does.
    """
    found = [run for run in runs if pattern is None or fnmatchcase(run.id, pattern)]
    if not found:
        ids = ", ".join(run.id for run in runs[:SHOWN]) + (", ..." if len(runs) > SHOWN else "")
        raise CbrError(f"no run fits --only {pattern!r}; there are: {ids}", hint="--only '*seed=0'")
    return found


def plan(recipe: Path, sets: Sequence[str], runs: Sequence[SweepRun], registry: Registry) -> list[Planned]:
    """Each run with its own recipe, completely checked.

    Raises:
        RecipeError: some combination of the sweep's values is wrong.
    """
    return [Planned(run, _recipe_of(run, recipe, sets, registry)) for run in runs]


def _recipe_of(run: SweepRun, recipe: Path, sets: Sequence[str], registry: Registry) -> Recipe:
    try:
        return load_recipe(recipe, overrides=[*sets, *run.overrides], registry=registry)
    except RecipeError as error:
        raise RecipeError([f"run {run.id}: {problem}" for problem in error.problems], hint=error.hint) from error


def make_launcher(text: str, registry: Registry) -> Launcher:
    """The launcher that ``--launcher`` names: by its name, or as a section as in a recipe.

    Raises:
        CbrError: there is no such launcher, a setting is wrong, or something has to be installed for it.
    """
    section = parse(text).data
    if isinstance(section, str):
        section = {"use": section}
    if not isinstance(section, dict) or not isinstance(section.get("use"), str):
        raise CbrError(f"--launcher {text!r} names no launcher", hint="--launcher '{use: PLUGIN/NAME, ...}'")
    component = registry.find("launcher", section.pop("use"))
    settings, faults = check(settings_class(component), section)
    if settings is None:
        said = "; ".join(f"{'.'.join(map(str, fault.keys))}: {fault.message}" for fault in faults)
        raise CbrError(f"--launcher {component.qualified}: {said}", hint=f"cbr show {component.qualified}")
    launcher: Launcher = component.load_factory()(settings, Build())
    return launcher
