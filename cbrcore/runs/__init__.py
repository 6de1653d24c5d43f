"""One way to start, resume and evaluate a run. torch is imported when it is first needed."""

from __future__ import annotations

import contextlib
import logging
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore import console
from cbrcore.errors import CbrError, Interrupted, RunFailed, RunFolderError
from cbrcore.interfaces import TellsHandicaps
from cbrcore.recipe import dump_recipe, load_recipe
from cbrcore.runs.folder import (
    LOG_FILE,
    PROGRESS_FILE,
    RECIPE_FILE,
    RESULTS_FILE,
    TIMING_FILE,
    VERSIONS_FILE,
    Recorders,
    RunFolder,
    read_json,
    stored_recipe,
    versions,
)

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport
    from cbrcore.runs.assemble import Learning, Parts
    from cbrcore.runs.checkpoint import Progress

log = logging.getLogger(__name__)

Finished = tuple[dict[str, Any], Path]
"""(what results.json holds, the run's folder)"""


# -- commands ----------------------------------------------------------------------------------------------------


def start(recipe: Recipe, plugins: PluginReport, out: Path | None, *, overwrite: bool = False) -> Finished:
    """A new run in `out`, or in a new folder under runs/."""
    return _run(recipe, plugins, RunFolder.create(recipe.name, out, overwrite=overwrite))


def resume(recipe: Recipe, plugins: PluginReport, path: Path) -> Finished:
    """Continue the run in `path` from its latest checkpoint. The recipe may differ from the stored one in
    `run` (a longer budget) and `recorders` only; RunFolderError names the sections that differ."""
    stored = load_recipe(stored_recipe(path), registry=plugins.registry)
    free = {"run", "recorders", "directory"}
    before, now = (one.model_dump(mode="json", exclude=free) for one in (stored, recipe))
    if changed := [key for key in now if now[key] != before.get(key)]:
        raise RunFolderError(
            f"{path} was started with another recipe; different: {', '.join(changed)}",
            hint="resume with the folder's own recipe (leave RECIPE out), or start a new run",
        )
    return _run(recipe, plugins, RunFolder.resume(path))


def evaluate(recipe: Recipe, plugins: PluginReport, path: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Measure the latest checkpoint of the run in `path` on `splits` (the recipe's, if empty); noted there too."""
    from cbrcore.runs.checkpoint import restore_agent

    checkpoint = newest_checkpoint(path)
    folder = RunFolder.resume(path)
    with working(recipe, plugins, folder) as work:
        progress = restore_agent(checkpoint, work.parts.reasoner)[0]
        found = evaluation(work, splits or recipe.evaluation.splits)
        if (folder.path / RESULTS_FILE).exists():
            found = read_json(folder.path / RESULTS_FILE)["evaluation"] | found
        results = _results(work, progress, found)
        folder.write_json(RESULTS_FILE, results)
        return results


def _run(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Finished:
    with working(recipe, plugins, folder) as work:
        begin_records(work, plugins)
        for line in _duplicates(work.parts).get("duplicates", ()):
            log.warning("one game counts several times: %s", " = ".join(line))
            console.say(f"warning: one game counts several times: {' = '.join(line)}")
        return carry_out(work, built_learning(recipe, plugins)), folder.path


def carry_out(work: Work, learning: Learning) -> dict[str, Any]:
    """Train to the end of the budget, evaluate, write the records; what results.json holds."""
    from cbrcore.runs.trainer import Trainer

    folder, retriever = work.folder, work.parts.reasoner.retriever
    with contextlib.closing(Recorders(learning.recorders)) as recorders:
        trainer = Trainer(work, learning, recorders)
        try:
            trainer.train()
        finally:
            folder.write_json(TIMING_FILE, _timing(trainer.progress))
            if retriever is not None:
                retriever.memory.save(folder.memory, weights=retriever.digest())
        results = _results(work, trainer.progress, evaluation(work, work.recipe.evaluation.splits))
        folder.write_json(RESULTS_FILE, results)
        recorders.finish(results)
    return results


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
        raise
    except Exception as error:
        log.exception("the run failed")
        said = f"the run failed: {type(error).__name__}: {error}"
        raise RunFailed(said, hint=f"details: {folder.path / LOG_FILE}") from error
    finally:
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


def built(recipe: Recipe, plugins: PluginReport) -> Parts:
    """The recipe's parts; whoever asks for them closes them. CbrError: one cannot be built here."""
    from cbrcore.runs.assemble import assemble

    return assemble(recipe, plugins.registry)


def built_learning(recipe: Recipe, plugins: PluginReport) -> Learning:
    """What trains the recipe's parts; see `built`."""
    from cbrcore.runs.assemble import assemble_learning

    return assemble_learning(recipe, plugins.registry)


# -- records -----------------------------------------------------------------------------------------------------


def begin_records(work: Work, plugins: PluginReport) -> None:
    """Write down the recipe and the versions."""
    work.folder.write_text(RECIPE_FILE, dump_recipe(work.recipe))
    used = {info.name: f"{info.distribution} {info.version}" for info in plugins.plugins if info.status == "ok"}
    work.folder.write_json(VERSIONS_FILE, versions(work.parts.device, used))


def evaluation(work: Work, splits: Sequence[str]) -> dict[str, Any]:
    """Steps and scores of the frozen agent on each split: figures of the first mode, under their names the other
    modes and the uniform random policy, and the optimal steps where the games tell them."""
    from cbrcore.cycle.evaluation import mean

    environment, (first, *others) = work.parts.environment, work.recipe.evaluation.modes
    found = {}
    for split in splits:
        found[split] = _measured(work, split, first) | {"mode": first}
        found[split] |= {mode: _measured(work, split, mode) for mode in (*others, "random")}
        facts = [environment.game_info(game) for game in environment.games(split)]
        found[split]["optimal_steps"] = mean(fact.get("optimal_steps") for fact in facts)
    return found


def _measured(work: Work, split: str, mode: str) -> dict[str, Any]:
    """Figures of one way to act on a split."""
    from cbrcore.cycle.evaluation import FrozenActor, UniformActor, play_passes, summarize

    def after_play() -> None:
        work.reporter.advance()
        if work.stop:
            hint = f"evaluate it with: cbr evaluate {work.folder.path}"
            raise Interrupted("interrupted while evaluating; the trained agent is saved", hint=hint)

    parts, passes, seed = work.parts, work.recipe.evaluation.passes, work.recipe.seed
    count = passes * len(parts.environment.games(split))
    work.reporter.phase(f"evaluating on {split!r}, {mode} (game plays)", count)
    frozen = partial(FrozenActor, parts.reasoner, greedy=mode == "greedy")
    actor = UniformActor if mode == "random" else frozen
    plays = play_passes(parts.environment, actor, split, passes=passes, seed=seed, after_play=after_play)
    return summarize(plays)


def _results(work: Work, progress: Progress, evaluation: dict[str, Any]) -> dict[str, Any]:
    """What results.json holds. There is no clock in it."""
    from cbrcore.cycle.evaluation import ood_gap

    scores, retriever = progress.recent_scores, work.parts.reasoner.retriever
    return {
        "schema": 1,
        "name": work.recipe.name,
        "evaluation": evaluation,
        "ood_gap": ood_gap(evaluation),
        "training": {
            "avg_score_last_100": statistics.fmean(scores) if scores else None,
            "best_score": progress.best_score,
            "endings": dict(sorted(progress.endings.items())),
            "env_steps": progress.env_steps,
            "episodes": progress.games_played,
            "memory_size": len(retriever.memory) if retriever else 0,
            "pretraining": progress.pretraining,
            "skipped_updates": progress.skipped_updates,
        },
        "protocol": _protocol(work.recipe, work.parts),
    }


def _protocol(recipe: Recipe, parts: Parts) -> dict[str, Any]:
    """What makes the task easier than the bare text game, and how it was measured."""
    environment, agent = parts.environment, parts.reasoner.agent
    return {
        "seed": recipe.seed,
        "handicaps": {**environment.handicaps, **(agent.handicaps if isinstance(agent, TellsHandicaps) else {})},
        "retry_failed": recipe.memory.settings.retry_failed if recipe.memory else None,
        "win_bonus": recipe.training.win_bonus,
        "evaluation_passes": recipe.evaluation.passes,
        "games": {
            split: {game: dict(environment.game_info(game)) for game in environment.games(split)}
            for split in environment.splits()
        },
        **_duplicates(parts),
    }


def _duplicates(parts: Parts) -> dict[str, list[list[str]]]:
    """What results.json says of games that are the same by their content; nothing where there are none."""
    from cbrcore.cycle.evaluation import same_games

    found = same_games(parts.environment)
    return {"duplicates": found} if found else {}


def _timing(progress: Progress) -> dict[str, Any]:
    """What timing.json holds: the clock's part of the records."""
    seconds = dict(progress.seconds)
    total = seconds.pop("total", 0.0)
    return {
        "seconds": total,
        "steps_per_second": progress.env_steps / total if total else 0.0,
        "shares": {name: part / total if total else 0.0 for name, part in sorted(seconds.items())},
    }


def newest_checkpoint(run: Path) -> Path:
    """The latest checkpoint of a run; RunFolderError if the folder holds no run, or the run has none."""
    from cbrcore.runs.checkpoint import latest_checkpoint

    stored_recipe(run)
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise RunFolderError(f"{run} has no checkpoint", hint="train first: cbr run")
    return checkpoint
