"""One way to start, resume, evaluate and open a run; for the commands, for scripts and for notebooks.

    import cbrcore as cbr
    run = cbr.run("recipes/quickstart.yaml", seed=3)     # or cbr.open("runs/...")
    run.results, run.metrics                             # plain data
    for step in run.play("game", split="out"): ...       # decision by decision
    run.memory.similar(observation, action)              # the most similar cases

torch is imported when it is first needed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore.console import PluginLines, RecordedProgress, Reporter, StopRequest, graceful_interrupt, reporter
from cbrcore.cycle.runner import Play
from cbrcore.errors import CbrError, Interrupted, RunFailed, RunFolderError, suggest
from cbrcore.recipe import dump_recipe, load_recipe
from cbrcore.rng import derive_seed, generator
from cbrcore.runs.folder import (
    LOG_FILE,
    METRICS_FILE,
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
    from cbrcore.cycle.retriever import Retriever
    from cbrcore.interfaces import Environment
    from cbrcore.plugins import PluginReport
    from cbrcore.runs.assemble import Learning, Parts
    from cbrcore.runs.checkpoint import Progress
    from cbrcore.types import Action, Case, Match, Observation

log = logging.getLogger(__name__)

Finished = tuple[dict[str, Any], Path]
"""(what results.json holds, the run's folder)"""


# -- commands ----------------------------------------------------------------------------------------------------


def start(recipe: Recipe, plugins: PluginReport, out: Path | None, *, overwrite: bool = False) -> Finished:
    """A new run in `out`, or in a new folder under runs/."""
    return _run(recipe, plugins, RunFolder.create(recipe.name, out, overwrite=overwrite))


def resume(recipe: Recipe, plugins: PluginReport, path: Path) -> Finished:
    """Continue the run in `path` from its latest checkpoint."""
    _check_resumable(load_recipe(stored_recipe(path), registry=plugins.registry), recipe, path)
    return _run(recipe, plugins, RunFolder.resume(path))


def evaluate(recipe: Recipe, plugins: PluginReport, path: Path, splits: Sequence[str]) -> dict[str, Any]:
    """Measure the latest checkpoint of the run in `path` on `splits` (the recipe's, if empty); noted there too."""
    from cbrcore.cycle.evaluation import ood_gap
    from cbrcore.runs.checkpoint import restore_agent

    checkpoint = newest_checkpoint(path)
    folder = RunFolder.resume(path)
    with working(recipe, plugins, folder) as work:
        progress = restore_agent(checkpoint, work.parts.reasoner)[0]
        results = _results(work, progress, evaluation(work, splits or recipe.evaluation.splits))
        before = folder.path / RESULTS_FILE
        if before.exists():
            results["evaluation"] = read_json(before)["evaluation"] | results["evaluation"]
            results["ood_gap"] = ood_gap(results["evaluation"])
        folder.write_json(RESULTS_FILE, results)
        return results


def _run(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Finished:
    with working(recipe, plugins, folder) as work:
        begin_records(work, plugins)
        return carry_out(work, built_learning(recipe, plugins)), folder.path


def carry_out(work: Work, learning: Learning) -> dict[str, Any]:
    """Train to the end of the budget, evaluate, write the records; what results.json holds."""
    from cbrcore.runs.trainer import Trainer

    folder, retriever = work.folder, work.parts.reasoner.retriever
    with contextlib.closing(Recorders(learning.recorders)) as recorders:
        trainer = Trainer(work.recipe, work.parts, learning, recorders, folder, work.reporter, work.stop)
        try:
            progress = trainer.train()
        finally:
            _write_timing(folder, trainer.progress)
            if retriever is not None:
                retriever.memory.save(folder.memory, weights=retriever.digest())
        results = _results(work, progress, evaluation(work, work.recipe.evaluation.splits))
        folder.write_json(RESULTS_FILE, results)
        recorders.finish(results)
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


# -- work in a run's folder --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A recipe's parts in a run's folder, with who is told and who may stop."""

    recipe: Recipe
    folder: RunFolder
    parts: Parts
    reporter: Reporter
    stop: StopRequest


@contextlib.contextmanager
def working(recipe: Recipe, plugins: PluginReport, folder: RunFolder) -> Iterator[Work]:
    """Build everything, and close it whatever happens. An unexpected error is logged whole and named."""
    single_thread()
    parts = None
    try:
        with (
            reporter() as shown,
            RecordedProgress(shown, folder.path / PROGRESS_FILE) as told,
            _logging(PluginLines(shown)),
            graceful_interrupt() as stop,
        ):
            parts = built(recipe, plugins)
            yield Work(recipe, folder, parts, told, stop)
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


def built(recipe: Recipe, plugins: PluginReport) -> Parts:
    """The recipe's parts; whoever asks for them closes them.

    Raises:
        CbrError: one cannot be built here (missing games, model, module).
    """
    from cbrcore.runs.assemble import assemble

    return assemble(recipe, plugins.registry, recipe_dir=recipe.directory)


def built_learning(recipe: Recipe, plugins: PluginReport) -> Learning:
    """What trains the recipe's parts; see `built`."""
    from cbrcore.runs.assemble import assemble_learning

    return assemble_learning(recipe, plugins.registry, recipe_dir=recipe.directory)


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


def begin_records(work: Work, plugins: PluginReport) -> None:
    """Write down the recipe and the versions."""
    work.folder.write_text(RECIPE_FILE, dump_recipe(work.recipe))
    used = {i.name: f"{i.distribution} {i.version}" for i in plugins.plugins if i.status == "ok"}
    work.folder.write_json(VERSIONS_FILE, versions(work.parts.device, used))


def single_thread() -> None:
    """Small networks run faster on one thread, and the figures do not depend on the machine's cores."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


# -- results -----------------------------------------------------------------------------------------------------


def evaluation(work: Work, splits: Sequence[str]) -> dict[str, Any]:
    """Steps and scores of the frozen agent on each split, with the uniform random policy beside it."""
    from cbrcore.cycle.evaluation import Measure

    def after_play() -> None:
        work.reporter.advance()
        if work.stop:
            raise Interrupted(
                "interrupted while evaluating; the trained agent is saved",
                hint=f"evaluate it with: cbr evaluate {work.folder.path}",
            )

    measure = Measure(
        work.parts.environment,
        work.parts.reasoner,
        work.recipe.evaluation.passes,
        work.recipe.seed,
        work.reporter.phase,
        after_play,
    )
    return {split: measure.split(split, work.recipe.evaluation.modes) for split in splits}


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
    environment = parts.environment
    return {
        "seed": recipe.seed,
        "handicaps": {**environment.handicaps, **getattr(parts.reasoner.agent, "handicaps", {})},
        "retry_failed": recipe.memory.settings.retry_failed if recipe.memory else None,
        "win_bonus": recipe.training.win_bonus,
        "evaluation_passes": recipe.evaluation.passes,
        "games": {
            split: {game: dict(environment.game_info(game)) for game in environment.games(split)}
            for split in environment.splits()
        },
    }


def _write_timing(folder: RunFolder, progress: Progress) -> None:
    total = progress.seconds.get("total", 0.0)
    parts = {name: seconds for name, seconds in progress.seconds.items() if name != "total"}
    folder.write_json(
        TIMING_FILE,
        {
            "seconds": total,
            "steps_per_second": progress.env_steps / total if total else 0.0,
            "shares": {name: seconds / total if total else 0.0 for name, seconds in sorted(parts.items())},
        },
    )


def newest_checkpoint(run: Path) -> Path:
    """The latest checkpoint of a run; RunFolderError if the folder holds no run, or the run has none."""
    from cbrcore.runs.checkpoint import latest_checkpoint

    stored_recipe(run)
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise RunFolderError(f"{run} has no checkpoint", hint="train first: cbr run")
    return checkpoint


# -- a run to look at --------------------------------------------------------------------------------------------


def run(
    recipe: Path | str,
    *,
    seed: int | None = None,
    sets: Sequence[str] = (),
    out: Path | str | None = None,
    overwrite: bool = False,
    plugins: Sequence[Path | str] = (),
) -> Run:
    """Train and evaluate what a recipe describes, as ``cbr run`` does.

    Args:
        recipe: a recipe file; the shipped ones are found by ``recipes/NAME.yaml`` from any folder.
        seed: overrides the recipe's.
        sets: ``a.b=c`` texts, as after ``--set``.
        out: the run's folder; a new one in runs/ if left out.
        overwrite: replace the run in `out`.
        plugins: loose plugin files.

    Raises:
        CbrError: something is wrong with the recipe, or the run failed.
    """
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=plugins)
    overrides = [*sets, *([] if seed is None else [f"seed={seed}"])]
    checked = load_recipe(recipe, overrides=overrides, registry=report.registry)
    _, folder = start(checked, report, None if out is None else Path(out), overwrite=overwrite)
    return Run(folder, report)


def open(path: Path | str, *, plugins: Sequence[Path | str] = ()) -> Run:
    """The run in a folder, to look at; nothing in the folder changes, and the run may go on meanwhile.

    Raises:
        RunFolderError: the folder holds no run.
    """
    from cbrcore.plugins import load_plugins

    return Run(Path(path), load_plugins(files=plugins))


class Run:
    """A run's folder, and its parts with the weights and the memory of the latest checkpoint.

    The parts are built when they are first needed. A ``with`` block, or `close`, releases their engines.
    """

    def __init__(self, path: Path, plugins: PluginReport) -> None:
        stored_recipe(path)
        self.path = path
        self.plugins = plugins
        self._open: tuple[Parts, Progress] | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the engines; safe to call twice."""
        if self._open is not None:
            self._open[0].close()
            self._open = None

    @cached_property
    def checked(self) -> Recipe:
        """Its recipe, to be looked at: one game at a time, and without a GPU where there is none."""
        recipe = load_recipe(stored_recipe(self.path), registry=self.plugins.registry)
        device = "auto" if recipe.run.device == "cuda" else recipe.run.device
        return recipe.model_copy(update={"run": recipe.run.model_copy(update={"num_envs": 1, "device": device})})

    @property
    def recipe(self) -> dict[str, Any]:
        """What recipe.yaml holds, as plain data."""
        from cbrcore.recipe.text import parse

        data: dict[str, Any] = parse(stored_recipe(self.path).read_text(encoding="utf-8")).data
        return data

    @property
    def results(self) -> dict[str, Any]:
        """What results.json holds. RunFolderError: the run is not finished."""
        found: dict[str, Any] = read_json(self.path / RESULTS_FILE)
        return found

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl, one for each episode so far."""
        path = self.path / METRICS_FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return [json.loads(line) for line in lines]

    @property
    def parts(self) -> Parts:
        """Its parts. CbrError: one cannot be built here (missing games, model, module)."""
        return self._opened()[0]

    @property
    def progress(self) -> Progress:
        """How far it came."""
        return self._opened()[1]

    def _opened(self) -> tuple[Parts, Progress]:
        if self._open is None:
            checkpoint = newest_checkpoint(self.path)
            from cbrcore.runs.checkpoint import restore_agent

            single_thread()
            parts = built(self.checked, self.plugins)
            try:
                self._open = parts, restore_agent(checkpoint, parts.reasoner)[0]
            except BaseException:
                parts.close()
                raise
        return self._open

    def play(
        self, game: str | None = None, *, split: str | None = None, seed: int | None = None, greedy: bool = False
    ) -> Play:
        """A game play of the trained agent, step by step: ``for step in run.play(): step.decision``.

        Args:
            game: the split's first one, if left out.
            split: the one that holds `game`, or the first that is evaluated.
            seed: of the agent's draws and the game's chance; the run's, as in the evaluation, if left out.
            greedy: take the agent's most probable action.

        Raises:
            CbrError: there is no such game.
        """
        return next(self.plays(split, game, seed=seed, greedy=greedy))

    def plays(
        self,
        split: str | None = None,
        game: str | None = None,
        *,
        episodes: int = 1,
        seed: int | None = None,
        greedy: bool = False,
    ) -> Iterator[Play]:
        """Game plays, one after the other, each to its end; without `seed` and `game` those that the evaluation
        measured. See `play`.

        Args:
            episodes: how many; the split's games in turn, and from the start again.
        """
        from cbrcore.cycle.evaluation import FrozenActor, game_seed

        environment = self.parts.environment
        split = split or _split_of(environment, game, self.checked.evaluation.splits)
        games = _games(environment, split, game)
        for number in range(-(-episodes // len(games))):
            stream = derive_seed(self.checked.seed if seed is None else seed, f"evaluation:{split}:{number}")
            actor = FrozenActor(self.parts.reasoner, generator(stream), greedy=greedy)
            for name in games[: episodes - number * len(games)]:
                yield Play(environment, actor, name, game_seed(stream, name), label=(split, number))

    @cached_property
    def memory(self) -> RunMemory:
        """Its cases. RunFolderError: it has no case memory."""
        if self.parts.reasoner.retriever is None:
            raise RunFolderError(f"{self.path} has no case memory", hint="its recipe has none: add 'memory: {}'")
        return RunMemory(self.parts.reasoner.retriever)


class RunMemory:
    """The case memory of a run, to look into."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    def __repr__(self) -> str:
        return f"RunMemory({len(self)} cases)"

    def __len__(self) -> int:
        return len(self._retriever.memory)

    def __iter__(self) -> Iterator[Case]:
        return iter(self._retriever.memory.cases)

    def similar(
        self, observation: Observation, action: Action, *, count: int = 5, past: Sequence[Observation] = ()
    ) -> list[Match]:
        """The cases that are most similar to an action in a state, with their relevance, whatever tau says.

        Args:
            past: earlier observations of the episode, for encoders that look back.
        """
        seeds = self._retriever.view(action).seeds
        if not seeds or not len(self):
            return []
        situation = self._retriever.encoder.situation(observation, past)
        return self._retriever.nearest(situation, seeds)[:count]


def _split_of(environment: Environment, game: str | None, evaluated: Sequence[str]) -> str:
    """The split that holds the game; without one the first that is evaluated, else one that is not trained on."""
    splits = list(dict.fromkeys([*evaluated, *environment.splits()]))
    if game is None:
        others = [split for split in splits if split != "train"]
        return (list(evaluated) or others or splits)[0]
    found = next((split for split in splits if game in environment.games(split)), None)
    if found is None:
        known = [name for split in splits for name in environment.games(split)]
        raise CbrError(f"this run's environment has no game {game!r}. {suggest(game, known)}")
    return found


def _games(environment: Environment, split: str, game: str | None) -> Sequence[str]:
    games = environment.games(split)
    if game is not None and game not in games:
        raise CbrError(f"the split {split!r} has no game {game!r}. {suggest(game, games)}")
    return games if game is None else (game,)
