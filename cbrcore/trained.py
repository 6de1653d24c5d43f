"""A trained run, opened to look at: its parts filled from the latest checkpoint. Its folder stays as it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from cbrcore.assemble import Parts, assemble
from cbrcore.config import Recipe
from cbrcore.errors import RunFolderError
from cbrcore.plugins import PluginReport
from cbrcore.recipe import load_recipe
from cbrcore.records import stored_recipe
from cbrcore.training.checkpoint import Progress, latest_checkpoint, restore_agent


@dataclass(frozen=True)
class Trained:
    """A run's recipe, its parts with the weights and the memory of the latest checkpoint, and how far it came."""

    recipe: Recipe
    parts: Parts
    progress: Progress


@contextlib.contextmanager
def trained(run: Path, plugins: PluginReport) -> Iterator[Trained]:
    """Open the run in this folder; its engines are closed in the end. The run may go on meanwhile.

    Raises:
        RunFolderError: the folder holds no run, or the run has no checkpoint yet.
        CbrError: a part cannot be built here (missing games, model, module).
    """
    stored = stored_recipe(run)
    checkpoint = newest_checkpoint(run)
    single_thread()
    recipe = _to_look_at(load_recipe(stored, registry=plugins.registry))
    parts = assemble(recipe, plugins.registry, recipe_dir=recipe.directory)
    try:
        progress, _, _ = restore_agent(checkpoint, parts.reasoner)
        yield Trained(recipe, parts, progress)
    finally:
        parts.close()


def _to_look_at(recipe: Recipe) -> Recipe:
    """One game at a time; and what was trained on a GPU can be looked at without one."""
    device = "auto" if recipe.run.device == "cuda" else recipe.run.device
    return recipe.model_copy(update={"run": recipe.run.model_copy(update={"num_envs": 1, "device": device})})


def newest_checkpoint(run: Path) -> Path:
    """The latest checkpoint of a run; RunFolderError if the folder holds no run, or the run has none."""
    stored_recipe(run)
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise RunFolderError(f"{run} has no checkpoint", hint="train first: cbr run")
    return checkpoint


def single_thread() -> None:
    """Small networks run faster on one thread, and the figures do not depend on the machine's cores."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
