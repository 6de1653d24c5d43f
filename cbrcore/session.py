"""What `cbr run` and `cbr evaluate` do: a recipe or a run folder in, records and results out."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from cbrcore.assemble import assemble
from cbrcore.config import Recipe
from cbrcore.console import PluginLines, reporter
from cbrcore.errors import CbrError, RunFailed, RunFolderError
from cbrcore.experiment import Experiment, versions
from cbrcore.interrupt import graceful_interrupt
from cbrcore.plugins import PluginReport
from cbrcore.recipe import dump_recipe, load_recipe
from cbrcore.records import (
    LOG_FILE,
    RECIPE_FILE,
    RESULTS_FILE,
    VERSIONS_FILE,
    RunFolder,
    read_json,
    stored_recipe,
)

log = logging.getLogger(__name__)


Finished = tuple[dict[str, Any], Path]
"""(what results.json holds, the run's folder)"""


def start(recipe: Recipe, plugins: PluginReport, out: Path | None, *, overwrite: bool = False) -> Finished:
    """A new run in `out`, or in a new folder under runs/."""
    return _run(recipe, plugins, RunFolder.create(recipe.name, out, overwrite=overwrite))


def resume(recipe: Recipe, plugins: PluginReport, path: Path) -> Finished:
    """Continue the run in `path` from its latest checkpoint."""
    stored = load_recipe(stored_recipe(path), registry=plugins.registry)
    _check_resumable(stored, recipe, path)
    return _run(recipe, plugins, RunFolder.resume(path))


def _run(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Finished:
    with _experiment(recipe, plugins, folder) as experiment:
        folder.write_text(RECIPE_FILE, dump_recipe(recipe))
        used = {i.name: f"{i.distribution} {i.version}" for i in plugins.plugins if i.status == "ok"}
        folder.write_json(VERSIONS_FILE, versions(experiment.parts.device, used))
        return experiment.run(), folder.path


def evaluate(recipe: Recipe, plugins: PluginReport, path: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Measure the latest checkpoint of the run in `path` on `splits` (the recipe's, if empty); noted there too."""
    folder = RunFolder.resume(path)
    with _experiment(recipe, plugins, folder) as experiment:
        progress = experiment.load_agent()
        results = experiment.results(progress, experiment.evaluate(splits or recipe.evaluation.splits))
        before = folder.path / RESULTS_FILE
        if before.exists():
            results["evaluation"] = read_json(before)["evaluation"] | results["evaluation"]
        folder.write_json(RESULTS_FILE, results)
        return results


def _check_resumable(stored: Recipe, given: Recipe, folder: Path) -> None:
    """The recipe of a resumed run may differ from the stored one in its `run` section only (a longer budget).

    Raises:
        RunFolderError: naming the sections that differ.
    """
    before, now = (recipe.model_dump(mode="json", exclude={"run", "directory"}) for recipe in (stored, given))
    changed = [key for key in now if now[key] != before.get(key)]
    if changed:
        raise RunFolderError(
            f"{folder} was started with another recipe; different: {', '.join(changed)}",
            hint="resume with the folder's own recipe (leave RECIPE out), or start a new run",
        )


@contextlib.contextmanager
def _experiment(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Iterator[Experiment]:
    """Build everything, and close it whatever happens. An unexpected error is logged whole and named."""
    _single_thread()
    parts = None
    try:
        with reporter() as shown, _logging(PluginLines(shown)), graceful_interrupt() as stop:
            parts = assemble(recipe, plugins.registry, recipe_dir=recipe.directory)
            yield Experiment(recipe, parts, folder, shown, stop)
    except CbrError as error:
        log.error("%s", error)
        raise
    except Exception as error:
        log.exception("the run failed")
        said = f"the run failed: {type(error).__name__}: {error}"
        raise RunFailed(said, hint=f"details: {folder.path / LOG_FILE}") from error
    finally:
        if parts is not None:
            parts.close()
        folder.close()


@contextlib.contextmanager
def _logging(lines: logging.Handler) -> Iterator[None]:
    """Everything from INFO on goes to the run's log, what plugins say to the terminal as well."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    root.addHandler(lines)
    try:
        yield
    finally:
        root.removeHandler(lines)
        root.setLevel(level)


def _single_thread() -> None:
    """Small networks run faster on one thread, and the figures do not depend on the machine's cores."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
