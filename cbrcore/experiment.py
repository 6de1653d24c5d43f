"""One experiment from start to end: train, evaluate, write the records."""

from __future__ import annotations

import logging
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cbrcore.assemble import Parts
from cbrcore.config import Recipe
from cbrcore.errors import Interrupted, RunFolderError
from cbrcore.evaluation import FrozenActor, UniformActor, ood_gap, play_passes, summarize
from cbrcore.interrupt import StopRequest
from cbrcore.records import RESULTS_FILE, TIMING_FILE, RunFolder
from cbrcore.runner import Actor
from cbrcore.training.checkpoint import Progress, latest_checkpoint, restore_agent
from cbrcore.training.trainer import Reporter, Trainer

log = logging.getLogger(__name__)

PACKAGES = ("torch", "torch-geometric", "transformers", "numpy", "textworld", "jericho", "pluggy", "pydantic")


class Experiment:
    """A recipe's parts in a run folder."""

    def __init__(
        self, recipe: Recipe, parts: Parts, folder: RunFolder, reporter: Reporter, stop: StopRequest
    ) -> None:
        self.recipe = recipe
        self.parts = parts
        self.folder = folder
        self.reporter = reporter
        self.stop = stop

    def __repr__(self) -> str:
        return f"Experiment({self.recipe.name!r}, {self.folder!r})"

    def run(self) -> dict[str, Any]:
        """Train to the end of the budget, then evaluate; returns what results.json holds."""
        p = self.parts
        trainer = Trainer(
            self.recipe, p.environments, p.reasoner, p.streams, p.clock, self.folder, self.reporter, self.stop
        )
        try:
            progress = trainer.train()
        finally:
            self._write_timing(trainer.progress)
            if p.reasoner.retriever is not None:
                p.reasoner.retriever.memory.save(self.folder.memory, weights=p.reasoner.retriever.digest())
        results = self.results(progress, self.evaluate(self.recipe.evaluation.splits))
        self.folder.write_json(RESULTS_FILE, results)
        return results

    def load_agent(self) -> Progress:
        """Fill the parts from the run's latest checkpoint.

        Raises:
            RunFolderError: there is none.
        """
        path = latest_checkpoint(self.folder.checkpoints)
        if path is None:
            raise RunFolderError(f"{self.folder.path} has no checkpoint", hint="train first: cbr run")
        return restore_agent(path, self.parts.reasoner)[0]

    def evaluate(self, splits: Sequence[str]) -> dict[str, Any]:
        """Steps and scores of the frozen agent on each split, with the uniform random policy beside it."""
        return {split: self._evaluate_split(split) for split in splits}

    def _evaluate_split(self, split: str) -> dict[str, Any]:
        first, *others = self.recipe.evaluation.modes
        found = self._play(split, first)
        found["mode"] = first
        for mode in others:
            found[mode] = self._play(split, mode)
        found["random"] = self._play(split, "random")
        optimal = [
            self.parts.environment.game_info(g).get("optimal_steps") for g in self.parts.environment.games(split)
        ]
        known = [steps for steps in optimal if steps is not None]
        found["optimal_steps"] = statistics.fmean(known) if known else None
        return found

    def _play(self, split: str, mode: str) -> dict[str, Any]:
        environment, passes = self.parts.environment, self.recipe.evaluation.passes
        self.reporter.phase(
            f"evaluating on {split!r}, {mode} (game plays)", passes * len(environment.games(split))
        )
        plays = play_passes(
            environment,
            self._actor_of(mode),
            split,
            passes=passes,
            seed=self.recipe.seed,
            after_play=self._after_play,
        )
        return summarize(plays)

    def _actor_of(self, mode: str) -> Callable[[np.random.Generator], Actor]:
        if mode == "random":
            return UniformActor
        return lambda rng: FrozenActor(self.parts.reasoner, rng, greedy=mode == "greedy")

    def _after_play(self) -> None:
        self.reporter.advance()
        if self.stop:
            raise Interrupted(
                "interrupted while evaluating; the trained agent is saved",
                hint=f"evaluate it with: cbr evaluate {self.folder.path}",
            )

    def results(self, progress: Progress, evaluation: dict[str, Any]) -> dict[str, Any]:
        """What results.json holds. There is no clock in it."""
        scores = progress.recent_scores
        return {
            "schema": 1,
            "name": self.recipe.name,
            "evaluation": evaluation,
            "ood_gap": ood_gap(evaluation),
            "training": {
                "avg_score_last_100": statistics.fmean(scores) if scores else None,
                "best_score": progress.best_score,
                "endings": dict(sorted(progress.endings.items())),
                "env_steps": progress.env_steps,
                "episodes": progress.games_played,
                "memory_size": len(self.parts.reasoner.retriever.memory) if self.parts.reasoner.retriever else 0,
                "pretraining": progress.pretraining,
                "skipped_updates": progress.skipped_updates,
            },
            "protocol": self._protocol(),
        }

    def _protocol(self) -> dict[str, Any]:
        environment = self.parts.environment
        return {
            "seed": self.recipe.seed,
            "handicaps": {**environment.handicaps, **getattr(self.parts.reasoner.agent, "handicaps", {})},
            "retry_failed": self.recipe.memory.retry_failed if self.recipe.memory else None,
            "win_bonus": self.recipe.training.win_bonus,
            "evaluation_passes": self.recipe.evaluation.passes,
            "games": {
                split: {game: dict(environment.game_info(game)) for game in environment.games(split)}
                for split in environment.splits()
            },
        }

    def _write_timing(self, progress: Progress) -> None:
        total = progress.seconds.get("total", 0.0)
        parts = {name: seconds for name, seconds in progress.seconds.items() if name != "total"}
        self.folder.write_json(
            TIMING_FILE,
            {
                "seconds": total,
                "steps_per_second": progress.env_steps / total if total else 0.0,
                "shares": {name: seconds / total if total else 0.0 for name, seconds in sorted(parts.items())},
            },
        )


def versions(device: str, plugins: dict[str, str]) -> dict[str, Any]:
    """What versions.json holds: enough to tell why two runs differ."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "plugins": plugins,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch_threads": torch.get_num_threads(),
        "git_commit": _git_commit(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of this source tree, if it is one."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(__file__).parents[2])},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
