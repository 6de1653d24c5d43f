"""Cases between runs: take those of one run out, put them into another."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cbr_memory.files import CASES_FILE, KEYS_FILE, SITUATIONS_FILE, read_cases, write_cases
from cbr_open.door import Run
from cbrcore.cycle.retriever import tensors_digest
from cbrcore.errors import RunFolderError
from cbrcore.runs import newest_checkpoint
from cbrcore.runs.checkpoint import State, load_checkpoint, read_state, save_checkpoint
from cbrcore.runs.files import seal
from cbrcore.runs.folder import RESULTS_FILE, RunFolder

MEMORY = "memory"
FAILURES = "failures"
BEFORE_FILE = "results_before_import.json"
"""What was measured of a run before cases were added to its memory."""
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
    seal(to, CASES_FILE, SITUATIONS_FILE, KEYS_FILE)
    return len(stored.cases)


def import_cases(run: Run, source: Path) -> tuple[int, int]:
    """Add the cases in the folder `source` to a run's latest checkpoint. Keys are made anew where the run's
    encoders are others.

    Returns:
        (how many were new, how many the run has now).

    Raises:
        RunFolderError: the run is in use, or has no checkpoint or no case memory; `source` holds no cases.
        RunFailed: keys cannot be made anew.
    """
    stored = read_cases(source)
    with closing(RunFolder.resume(run.path)) as folder:  # nobody trains it meanwhile
        checkpoint = checkpoint_with_cases(run.path)
        retriever = run.parts.reasoner.retriever
        assert retriever is not None  # the checkpoint has cases
        new = retriever.adopt(stored)
        progress, tensors, streams = load_checkpoint(checkpoint, {})
        facts = read_state(checkpoint)[0]
        others = {name: facts.get(name) or {} for name in ("recipe", "kept")}
        state = State(progress, tensors, streams, retriever.memory.stores(), **others)
        if new and (folder.path / RESULTS_FILE).exists():  # they are of the memory without the new ones
            (folder.path / RESULTS_FILE).replace(folder.path / BEFORE_FILE)
        save_checkpoint(checkpoint.parent, state)
        seal(folder.path, without=(MEMORY, RESULTS_FILE))  # nobody takes the new one for a damaged old one
        with folder.replacing(folder.memory) as fresh:
            retriever.memory.save(fresh, weights=retriever.digest())
        seal(folder.path, MEMORY)
        return new, len(retriever.memory)


def checkpoint_with_cases(run: Path, memory: str = MEMORY) -> Path:
    """The latest checkpoint of a run; RunFolderError if the run has none, or no such memory."""
    checkpoint = newest_checkpoint(run)
    if not (checkpoint / MEMORY).is_dir():
        raise RunFolderError(
            f"{run} has no case memory",
            hint=f"its recipe has none: add the four CBR parts (an explorer's: cbr cases list {run} --sequences)",
        )
    if not (checkpoint / memory).is_dir():
        raise RunFolderError(
            f"{run} keeps no cases that failed", hint="its recipe would have `memory: {outcome: both}`"
        )
    return checkpoint
