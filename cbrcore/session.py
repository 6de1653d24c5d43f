"""What `cbr run`, `cbr pretrain` and `cbr evaluate` do: a recipe or a run folder in, records and results out."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbrcore.assemble import Parts, assemble
from cbrcore.config import Recipe
from cbrcore.console import PluginLines, reporter
from cbrcore.errors import CbrError, RunFailed, RunFolderError
from cbrcore.evaluation import ood_gap
from cbrcore.experiment import Experiment, versions
from cbrcore.interrupt import StopRequest, graceful_interrupt
from cbrcore.plugins import PluginReport
from cbrcore.pretraining import Pretraining, check_pretrainable
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
from cbrcore.trained import single_thread
from cbrcore.training.pretrain import PretrainReport
from cbrcore.training.trainer import Reporter

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
    with _opened(recipe, plugins, folder) as opened:
        _begin_records(recipe, plugins, folder, opened.parts)
        return Experiment(recipe, opened.parts, folder, opened.reporter, opened.stop).run(), folder.path


def pretrain(
    recipe: Recipe, collector: Recipe | None, plugins: PluginReport, out: Path | None, *, overwrite: bool = False
) -> tuple[PretrainReport, Path]:
    """Pretrain the recipe's retriever in `out`, or in a new folder under runs/.

    Args:
        collector: the recipe of the plain agent that collects the experience; None for a uniform random one.
    """
    check_pretrainable(recipe)
    folder = RunFolder.create(f"{recipe.name}-retriever", out, overwrite=overwrite)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(_opened(recipe, plugins, folder))
        agent = None
        if collector is not None:
            agent = collector, assemble(collector, plugins.registry, recipe_dir=collector.directory)
            stack.callback(agent[1].close)
        _begin_records(recipe, plugins, folder, opened.parts)
        work = Pretraining(recipe, opened.parts, agent, folder, opened.reporter, opened.stop)
        return work.run(), folder.path


def _begin_records(recipe: Recipe, plugins: PluginReport, folder: RunFolder, parts: Parts) -> None:
    folder.write_text(RECIPE_FILE, dump_recipe(recipe))
    used = {i.name: f"{i.distribution} {i.version}" for i in plugins.plugins if i.status == "ok"}
    folder.write_json(VERSIONS_FILE, versions(parts.device, used))


def evaluate(recipe: Recipe, plugins: PluginReport, path: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Measure the latest checkpoint of the run in `path` on `splits` (the recipe's, if empty); noted there too."""
    folder = RunFolder.resume(path)
    with _opened(recipe, plugins, folder) as opened:
        experiment = Experiment(recipe, opened.parts, folder, opened.reporter, opened.stop)
        progress = experiment.load_agent()
        results = experiment.results(progress, experiment.evaluate(splits or recipe.evaluation.splits))
        before = folder.path / RESULTS_FILE
        if before.exists():
            results["evaluation"] = read_json(before)["evaluation"] | results["evaluation"]
            results["ood_gap"] = ood_gap(results["evaluation"])
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


@dataclass(frozen=True)
class Opened:
    """A recipe's parts, with who is told and who may stop."""

    parts: Parts
    reporter: Reporter
    stop: StopRequest


@contextlib.contextmanager
def _opened(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Iterator[Opened]:
    """Build everything, and close it whatever happens. An unexpected error is logged whole and named."""
    single_thread()
    parts = None
    try:
        with reporter() as shown, _logging(PluginLines(shown)), graceful_interrupt() as stop:
            parts = assemble(recipe, plugins.registry, recipe_dir=recipe.directory)
            yield Opened(parts, shown, stop)
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
