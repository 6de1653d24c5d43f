"""Cases between runs: take those of one run out, put them into another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cbrcore.cycle.casefiles import read_cases, write_cases
from cbrcore.cycle.retriever import tensors_digest
from cbrcore.errors import RunFolderError
from cbrcore.plugins import PluginReport
from cbrcore.recipe import load_recipe
from cbrcore.runs import newest_checkpoint
from cbrcore.runs.assemble import assemble
from cbrcore.runs.checkpoint import load_checkpoint, restore_agent, rewrite_memories
from cbrcore.runs.folder import RunFolder, stored_recipe

MEMORY = "memory"
FAILURES = "failures"
MADE_BY = ("context_encoder:", "quantizer:")
"""The tensors of a checkpoint that make keys."""


def export_cases(run: Path, to: Path) -> int:
    """Write the cases of a run's latest checkpoint into the folder `to`, with what other runs need to use them.

    Returns:
        How many there are.

    Raises:
        RunFolderError: the run has no checkpoint or no case memory, or `to` holds cases already.
    """
    checkpoint = checkpoint_with_cases(run)
    if (to / "cases.jsonl").exists():
        raise RunFolderError(f"{to} holds cases already", hint="name a new folder")
    _, tensors, _ = load_checkpoint(checkpoint, {})
    weights = tensors_digest({name: value for name, value in tensors.items() if name.startswith(MADE_BY)})
    stored = read_cases(checkpoint / MEMORY)
    write_cases(to, replace(stored, weights=weights))
    return len(stored.cases)


def import_cases(run: Path, source: Path, plugins: PluginReport) -> tuple[int, int]:
    """Add the cases in the folder `source` to a run's latest checkpoint. Keys are made anew where the run's
    encoders are others.

    Returns:
        (how many were new, how many the run has now).

    Raises:
        RunFolderError: the run has no checkpoint or no case memory; `source` holds no cases.
        RunFailed: keys cannot be made anew.
    """
    stored = read_cases(source)
    checkpoint = checkpoint_with_cases(run)
    recipe = load_recipe(stored_recipe(run), registry=plugins.registry)
    folder = RunFolder.resume(run)
    parts = assemble(recipe, plugins.registry, recipe_dir=recipe.directory)
    try:
        restore_agent(checkpoint, parts.reasoner)
        retriever = parts.reasoner.retriever
        if retriever is None:
            raise RunFolderError(f"{run} has no case memory", hint="its recipe has none: add the four CBR parts")
        new = retriever.adopt(stored)
        rewrite_memories(checkpoint, retriever.memories())
        retriever.memory.save(folder.memory, weights=retriever.digest())
        return new, len(retriever.memory)
    finally:
        parts.close()
        folder.close()


def checkpoint_with_cases(run: Path, memory: str = MEMORY) -> Path:
    """The latest checkpoint of a run; RunFolderError if the run has none, or no such memory."""
    checkpoint = newest_checkpoint(run)
    if not (checkpoint / MEMORY).is_dir():
        raise RunFolderError(f"{run} has no case memory", hint="its recipe has none: add the four CBR parts")
    if not (checkpoint / memory).is_dir():
        raise RunFolderError(
            f"{run} keeps no cases that failed", hint="its recipe would have `memory: {outcome: both}`"
        )
    return checkpoint
