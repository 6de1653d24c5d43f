"""One way to start, resume and evaluate a run. torch is imported when it is first needed."""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore import console
from cbrcore.config import expand_path
from cbrcore.errors import CbrError, PluginError, RunFailed, RunFolderError, free_mebibytes
from cbrcore.recipe import dump_recipe, load_recipe, plain_recipe, read_recipe_text
from cbrcore.recipe.model import RESULTS
from cbrcore.runs.files import NO_ROOM, damaged, seal, sha256_of
from cbrcore.runs.folder import (
    LOG_FILE,
    MEMORY,
    METRICS_FILE,
    PROGRESS_FILE,
    RECIPE_FILE,
    RESULTS_FILE,
    TIMING_FILE,
    VERSIONS_FILE,
    Recorders,
    RunFolder,
    read_json,
    run_command,
    starts_of,
    stored_recipe,
)
from cbrcore.runs.results import evaluation, results_of, timing
from cbrcore.runs.resuming import BUDGETS, Changes, changes, flat, refuse_other_run, told, versions

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport
    from cbrcore.runs.assemble import Learning, Parts
    from cbrcore.runs.checkpoint import Progress
    from cbrcore.runs.trainer import Trainer

log = logging.getLogger(__name__)

Finished = tuple[dict[str, Any], Path]
"""(what results.json holds, the run's folder)"""


# -- commands ----------------------------------------------------------------------------------------------------


def start(recipe: Recipe, plugins: PluginReport, out: Path | None, *, overwrite: bool = False) -> Finished:
    """A new run in `out`, or in a new folder under runs/. RunFolderError: it would replace what it reads."""
    given = flat(plain_recipe(recipe)) if overwrite and out else {}
    for key in (key for key in given if key.startswith(("memory.cases", "training.pretrain."))):
        read = Path()
        with contextlib.suppress(CbrError, OSError):  # it is no path, or nothing is there
            read = expand_path(str(given[key]), Path(recipe.directory)).resolve(strict=True)
        if out and read.is_relative_to(out.resolve()):
            said = f"{out} cannot be replaced: {key} reads {read}"
            raise RunFolderError(said, hint="choose another --out, or let it read a copy")
    return _run(recipe, plugins, RunFolder.create(recipe.name, out, overwrite=overwrite))


def resume(recipe: Recipe, plugins: PluginReport, path: Path) -> Finished:
    """Continue the run in `path` from its latest checkpoint. The recipe may differ from that of the checkpoint, or
    of the folder if there is none, as `cbrcore.runs.resuming` has it.

    Raises:
        RunFolderError: it differs elsewhere, is in use, or its files are damaged or gone.
    """
    from cbrcore.runs.checkpoint import latest_checkpoint, read_state

    stored_recipe(path)
    checkpoint = latest_checkpoint(path / "checkpoints", tell=log.debug)  # told when it is used
    if checkpoint is None and (path / RESULTS_FILE).exists():
        again = run_command(f"run {shlex.quote(str(path / RECIPE_FILE))} --overwrite --out", path)
        raise RunFolderError(f"{path} is finished, but its checkpoints are gone", hint=f"train anew: {again}")
    taken = read_state(checkpoint)[0].get("recipe") if checkpoint else None
    if taken:
        label = f"the recipe in {checkpoint}"
        stored = read_recipe_text(json.dumps(taken), label, folder=path, registry=plugins.registry)
    else:
        stored = load_recipe(stored_recipe(path), registry=plugins.registry)
    changed = changes(plain_recipe(stored), plain_recipe(recipe))
    refuse_other_run(path, changed)
    return _run(recipe, plugins, RunFolder.resume(path), changed)


def evaluate(recipe: Recipe, plugins: PluginReport, path: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Measure the latest checkpoint of the run in `path` on `splits` (the recipe's, if empty); noted there too.

    Raises:
        RunFolderError: there is none, or what is noted there was measured later in the training.
    """
    from cbrcore.runs.checkpoint import read_state, restore_agent

    folder = RunFolder.resume(path)
    with working(recipe, plugins, folder) as work:
        checkpoint = newest_checkpoint(path)  # a damaged one is told here, and in the log
        games = read_state(checkpoint)[1].games_played
        noted = _noted_evaluation(path, games)
        console.say(f"measuring {checkpoint}, after {games} game plays")
        _tell_versions(starts_of(path), _start(work, plugins))
        progress = restore_agent(checkpoint, work.parts.reasoner, work.parts.keepers())[0]
        found = noted | evaluation(work, splits or recipe.evaluation.splits)
        results = results_of(work, progress, found)
        _write_results(folder, results)
        return results


def _noted_evaluation(path: Path, games: int) -> dict[str, Any]:
    """What results.json holds of a checkpoint after so many game plays. RunFolderError: it is of a later one."""
    if not (path / RESULTS_FILE).exists():
        return {}
    wrong = [fault for fault in damaged(path) if fault.startswith(RESULTS_FILE)]
    try:
        results = read_json(path / RESULTS_FILE)
        with contextlib.suppress(PluginError):
            RESULTS.load_factory().results_table(results)  # whether it holds what goes into the new one
        later = int(results["training"]["episodes"])
    except (CbrError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        wrong.append(f"{RESULTS_FILE} is not what a run writes ({type(error).__name__}: {error})")
    if wrong:
        console.say(f"warning: {path}: {wrong[0]}; it is written anew")
        return {}
    if later > games:
        raise RunFolderError(
            f"{path / RESULTS_FILE} was measured after {later} game plays; the newest checkpoint is after {games}",
            hint=f"play the rest again: {run_command('run --resume', path)}\n  or move {RESULTS_FILE} away",
        )
    return dict(results["evaluation"]) if later == games else {}


def _run(recipe: Recipe, plugins: PluginReport, folder: RunFolder, changed: Changes | None = None) -> Finished:
    def begin(trainer: Trainer) -> None:
        if set(BUDGETS) & set(changed or {}) and not trainer.fits_budget:
            done = f"{trainer.progress.games_played} game plays, {trainer.progress.env_steps} steps"
            said = f"{folder.path} has come too far, or not by whole rounds of games, for this budget: {done}"
            raise RunFolderError(said, hint=f"leave {' and '.join(BUDGETS)} as they were, or start a new run")
        trainer.tell_recorders()  # before anything is written: one that cannot begin refuses the run
        begin_records(work, plugins, after=trainer.progress.games_played, changed=changed)

    from cbrcore.cycle.evaluation import same_games

    with working(recipe, plugins, folder) as work:
        for line in same_games(work.parts.environment):
            log.warning("one game counts several times: %s", " = ".join(line))
        learning = built_learning(recipe, plugins)
        folder.set_aside()
        return carry_out(work, learning, begin), folder.path


def carry_out(work: Work, learning: Learning, begin: Callable[[Trainer], None] | None = None) -> dict[str, Any]:
    """Train to the end of the budget, evaluate, write the records; what results.json holds.

    Args:
        begin: see `Trainer.train`.
    """
    from cbrcore.runs.trainer import Trainer

    with contextlib.closing(Recorders(learning.recorders)) as recorders:
        trainer = Trainer(work, learning, recorders)
        try:
            trainer.train(begin or Trainer.tell_recorders)
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong before is what is told
                if trainer.entered:
                    _leave_records(work, trainer.progress)
            raise
        _leave_records(work, trainer.progress)
        results = results_of(work, trainer.progress, evaluation(work, work.recipe.evaluation.splits))
        _write_results(work.folder, results)
        recorders.finish(results)
    return results


def _leave_records(work: Work, progress: Progress) -> None:
    """What a run leaves however it ends: the clock's part, and its cases."""
    folder, retriever = work.folder, work.parts.reasoner.retriever
    folder.write_json(TIMING_FILE, timing(progress))
    if retriever is not None:
        with folder.replacing(folder.memory) as fresh:
            retriever.memory.save(fresh, weights=retriever.digest())
    seal(folder.path, TIMING_FILE, METRICS_FILE, MEMORY)


def _write_results(folder: RunFolder, results: dict[str, Any]) -> None:
    folder.write_json(RESULTS_FILE, results)
    seal(folder.path, RESULTS_FILE)


# -- work in a run's folder --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A recipe's parts in a run's folder, with who is told and who may stop."""

    recipe: Recipe
    folder: RunFolder
    parts: Parts
    reporter: console.Reporter
    stop: console.StopRequest


@contextlib.contextmanager
def working(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Iterator[Work]:
    """Build everything, and close it whatever happens. An unexpected error is logged whole and named."""
    failed = False
    try:
        with (
            console.reporter() as shown,
            console.RecordedProgress(shown, folder.path / PROGRESS_FILE) as told,
            _logging(console.PluginLines(shown)),
            console.graceful_interrupt() as stop,
            contextlib.closing(built(recipe, plugins)) as parts,
        ):
            yield Work(recipe, folder, parts, told, stop)
    except CbrError as error:
        log.error("%s", error)
        if failed := isinstance(error, RunFailed):
            error.hint = "\n  ".join([*filter(None, [error.hint]), f"details: {folder.path / LOG_FILE}"])
        raise
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # a part's sys.exit(0) is a failure, too
        log.exception("the run failed")
        failed = True
        raise _failure(error, folder.path) from error
    finally:
        folder.close(failed=failed)


def _failure(error: BaseException, folder: Path) -> RunFailed:
    """What is said of an unexpected error."""
    details = f"details: {folder / LOG_FILE}"
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        where = Path(error.filename or folder)
        free = f"{free_mebibytes(str(where))} MiB are free there"
        said = f"the run failed: {where} cannot be written: {error.strerror} ({free})"
        return RunFailed(said, hint=f"make room, then go on: {run_command('run --resume', folder)}\n  {details}")
    return RunFailed(f"the run failed: {type(error).__name__}: {error}", hint=details)


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


def built(recipe: Recipe, plugins: PluginReport) -> Parts:
    """The recipe's parts; whoever asks for them closes them. CbrError: one cannot be built here."""
    from cbrcore.runs.assemble import assemble

    return assemble(recipe, plugins.registry)


def built_learning(recipe: Recipe, plugins: PluginReport) -> Learning:
    """What trains the recipe's parts; see `built`."""
    from cbrcore.runs.assemble import assemble_learning

    return assemble_learning(recipe, plugins.registry)


# -- records -----------------------------------------------------------------------------------------------------


def begin_records(work: Work, plugins: PluginReport, *, after: int = 0, changed: Changes | None = None) -> None:
    """Write down the recipe, the versions, and that the run started after so many game plays with changed
    settings; what differs from its first start is told."""
    starts, start = starts_of(work.folder.path), _start(work, plugins)
    _tell_versions(starts, start)
    for line in told(changed or {}):
        console.say(f"note: resumed with another setting: {line}")
    work.folder.write_text(RECIPE_FILE, dump_recipe(work.recipe))
    facts = {"after": after, "changed": dict(changed or {}), **start}
    work.folder.write_json(VERSIONS_FILE, start | {"starts": [*starts, facts]})
    seal(work.folder.path, RECIPE_FILE, VERSIONS_FILE, without=(METRICS_FILE, TIMING_FILE, MEMORY))


def _start(work: Work, plugins: PluginReport) -> dict[str, Any]:
    """What makes figures, beside the recipe, at a start of a run."""
    used = {info.name: f"{info.distribution} {info.version}" for info in plugins.plugins if info.status == "ok"}
    files = [info.distribution for info in plugins.plugins if info.version.startswith("sha256:")]
    return versions(work.parts.device, used) | {"plugin_files": {file: sha256_of(Path(file)) for file in files}}


def _tell_versions(starts: Sequence[dict[str, Any]], now: dict[str, Any]) -> None:
    """Say what is not as it was when the run began; it may make other figures."""
    if starts:
        before = {name: value for name, value in starts[0].items() if name in now}
        for line in told(changes(before, now)):
            console.say(f"warning: not as it was when the run began, figures may differ: {line}")


def newest_checkpoint(run: Path) -> Path:
    """The latest checkpoint of a run; RunFolderError if the folder holds no run, or the run has none."""
    from cbrcore.runs.checkpoint import latest_checkpoint

    stored_recipe(run)
    if (checkpoint := latest_checkpoint(run / "checkpoints")) is None:
        raise RunFolderError(f"{run} has no checkpoint", hint="train first: cbr run")
    return checkpoint
