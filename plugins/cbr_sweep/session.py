"""`cbr sweep` from its options to its last line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbr_sweep.axes import axes_of, expand
from cbr_sweep.folder import Planned, SweepFolder
from cbr_sweep.plan import chosen, plan
from cbr_sweep.status import Status, counts
from cbr_sweep.view import view
from cbr_sweep.work import Options, Sweep
from cbrcore.config import Recipe
from cbrcore.console import aligned, graceful_interrupt
from cbrcore.errors import CbrError
from cbrcore.interfaces import Launcher
from cbrcore.registry import Registry


@dataclass(frozen=True)
class Given:
    """A sweep as the command line gives it.

    Attributes:
        file: the recipe's file; `recipe` is what it holds, with `sets` applied.
        only: a pattern of run ids.
    """

    file: Path
    recipe: Recipe
    sets: Sequence[str]
    only: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A sweep that fits its folder; nothing is written yet."""

    given: Given
    folder: SweepFolder
    planned: Sequence[Planned]


def prepare(given: Given, out: Path | None, registry: Registry) -> Prepared:
    """Expand the sweep and check everything.

    Args:
        out: its folder; by default runs/<the recipe's name>, so that the same command finds it again.

    Raises:
        CbrError: a run's recipe is wrong, or the folder holds something else.
    """
    planned = plan(given.file, given.sets, chosen(expand(given.recipe), given.only), registry)
    folder = SweepFolder(out or Path("runs") / given.recipe.name)
    folder.check(given.recipe.name, planned, registry)
    return Prepared(given, folder, planned)


def execute(prepared: Prepared, launcher: Launcher, options: Options) -> str:
    """Execute what is not done yet; returns what came of it, in words.

    Raises:
        Interrupted, RunFailed: see `Sweep.work`.
    """
    given, folder = prepared.given, prepared.folder
    folder.begin(given.recipe.name, given.file, expand(given.recipe), prepared.planned)
    with view() as shown, graceful_interrupt() as stop:
        return Sweep(folder, prepared.planned, launcher, shown, stop, options).work()


def overview(prepared: Prepared) -> str:
    """The runs with state and choices, and how many there are."""
    folder = prepared.folder
    runs = [Status(item, folder.state(item.id), folder.log(item.id)) for item in prepared.planned]
    rows = [("run", "state", "choices"), *((s.id, str(s.state), _choices(s.planned.run.choices)) for s in runs)]
    return f"{aligned(rows)}\n\n{len(runs)} runs: {counts(runs)}"


def check_seed(recipe: Recipe, seed: int | None) -> None:
    """CbrError if the sweep chooses the seeds itself."""
    if seed is not None and "seed" in axes_of(recipe):
        raise CbrError("the recipe's sweep has an axis 'seed'", hint=f"--set sweep.seed=[{seed}]")


def _choices(choices: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}: {choice}" for axis, choice in choices.items())
