"""From a recipe and the command line to the runs of a sweep, and to the launcher that executes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cbr_border.parts import guarded, making
from cbr_sweep.axes import SECTION, SweepRun, axes_of, expand
from cbr_sweep.folder import SHOWN, PlannedRun, SweepFolder
from cbrcore.config import Recipe
from cbrcore.errors import CbrError, RecipeError
from cbrcore.interfaces import Build, Launcher
from cbrcore.recipe import load_recipe
from cbrcore.recipe.model import settings_class
from cbrcore.recipe.text import parse
from cbrcore.recipe.words import check
from cbrcore.registry import Component, Registry


@dataclass(frozen=True)
class SweepRequest:
    """A sweep as the command line names it.

    Attributes:
        file: the recipe's file; `recipe` is what it holds, with `sets` applied.
        only: a pattern of run ids.
        seed: of all runs, if it was given.
    """

    file: Path
    recipe: Recipe
    sets: Sequence[str]
    only: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class SweepPlan:
    """A sweep that fits its folder, with its runs; nothing is written yet."""

    request: SweepRequest
    folder: SweepFolder
    planned: Sequence[PlannedRun]


def make_plan(request: SweepRequest, out: Path | None, registry: Registry) -> SweepPlan:
    """Expand the sweep and check everything.

    Args:
        out: its folder; by default runs/<the recipe's name>, so that the same command finds it again.

    Raises:
        CbrError: a run's recipe is wrong, or the folder holds something else.
    """
    recipe, axes = request.recipe, axes_of(request.recipe)
    if request.seed is not None and "seed" in axes:
        raise CbrError("the recipe's sweep has an axis 'seed'", hint=f"--set sweep.seed=[{request.seed}]")
    for path in (each.partition("=")[0].strip() for each in request.sets):
        if path in axes:
            told = f"the recipe's sweep has an axis {path!r}, whose values count: --set {path} would change no run"
            raise CbrError(told, hint="choose runs by their id: --only PATTERN")
    planned = [
        PlannedRun(run, _recipe_of(run, request, registry)) for run in _chosen(expand(recipe), request.only)
    ]
    folder = SweepFolder(out or Path("runs") / recipe.name)
    folder.check(recipe.name, planned, registry)
    return SweepPlan(request, folder, planned)


def _chosen(runs: Sequence[SweepRun], pattern: str | None) -> list[SweepRun]:
    """The runs whose id fits the pattern (``*`` and ``?``); all of them without one.

    Raises:
        CbrError: none does.
    """
    found = [run for run in runs if pattern is None or fnmatchcase(run.id, pattern)]
    if not found:
        ids = ", ".join(run.id for run in runs[:SHOWN]) + (", ..." if len(runs) > SHOWN else "")
        raise CbrError(f"no run fits --only {pattern!r}; there are: {ids}", hint="--only '*seed=0'")
    return found


def _recipe_of(run: SweepRun, request: SweepRequest, registry: Registry) -> Recipe:
    """The run's own recipe, completely checked.

    Raises:
        RecipeError: this combination of the sweep's values is wrong.
    """
    sets = [each for each in request.sets if each.partition("=")[0].strip().partition(".")[0] != SECTION]
    try:
        return load_recipe(request.file, overrides=[*sets, *run.overrides], registry=registry)
    except RecipeError as error:
        raise RecipeError([f"run {run.id}: {problem}" for problem in error.problems], hint=error.hint) from error


def make_launcher(text: str, registry: Registry) -> Launcher:
    """The launcher that ``--launcher`` names: by its name, or as a section as in a recipe.

    Raises:
        CbrError: there is no such launcher, a setting is wrong, or something has to be installed for it.
        RunFailed: its factory fails, or gives something else.
    """
    section = parse(text).data
    if isinstance(section, str):
        section = {"use": section}
    if not isinstance(section, dict) or not isinstance(section.get("use"), str):
        raise CbrError(f"--launcher {text!r} names no launcher", hint="--launcher '{use: PLUGIN/NAME, ...}'")
    component = registry.find("launcher", section.pop("use"))
    settings, factory = _settings(component, section), component.load_factory()
    with making("launcher", component.qualified):
        made = factory(settings, Build())
    launcher: Launcher = guarded(made, "launcher", component.qualified)
    return launcher


def _settings(component: Component, section: Mapping[str, Any]) -> BaseModel:
    settings, faults = check(settings_class(component), section)
    if settings is None:
        said = "; ".join(f"{'.'.join(map(str, fault.keys))}: {fault.message}" for fault in faults)
        raise CbrError(f"--launcher {component.qualified}: {said}", hint=f"cbr show {component.qualified}")
    return settings
