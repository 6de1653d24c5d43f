"""Checkpoints: safetensors + JSON, complete or absent. Nothing that could run code is ever loaded."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.errors import RunFailed, RunFolderError
from cbrcore.interfaces import CaseStore, KeepsState
from cbrcore.runs.files import (
    CHECKSUMS_FILE,
    clear_leftovers,
    damaged,
    seal,
    sync,
    write_atomically,
    write_tensors,
)
from cbrcore.types import Episode

log = logging.getLogger(__name__)

STATE_FILE = "state.json"
TENSORS_FILE = "tensors.safetensors"
FORMAT = 3
WITHOUT_CHECKSUMS = 2
"""The format before; it is read still, and there is nothing to compare it with."""
KEPT = 2
NAME = r"\d{8}(-\d+)?"
LAST = "last"
"""The state after the last round of plays, as ``.last.PID.tmp``; see `Trainer`."""
LAST_SCORES = 100
Loaded = tuple["Progress", dict[str, Tensor], dict[str, Any]]


@dataclass
class Progress:
    """Everything a run counts, as plain data.

    `games_played` is the number of finished game plays ("episode" in metrics.jsonl); `recent_scores` are the final
    scores of the last 100, `endings` says how many ended in which way. What a run starts with is never done again
    once it is `begun`. `refreshed`: the keys of the cases are those of the parameters (`memory.refresh`).
    """

    games_played: int = 0
    env_steps: int = 0
    metrics_bytes: int = 0
    pretrained: bool = False
    pretraining: dict[str, Any] = field(default_factory=dict)
    recent_scores: list[float] = field(default_factory=list)
    best_score: float | None = None
    endings: dict[str, int] = field(default_factory=dict)
    skipped_updates: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    begun: bool = False
    metrics_sha256: str = ""
    refreshed: bool = False

    def count(self, episode: Episode) -> None:
        """Take in a finished game play of the training."""
        self.games_played += 1
        self.recent_scores = [*self.recent_scores, episode.score][-LAST_SCORES:]
        self.best_score = episode.score if self.best_score is None else max(self.best_score, episode.score)
        ending = str(episode.ending)
        self.endings[ending] = self.endings.get(ending, 0) + 1


APART = ("begun", "metrics_sha256", "refreshed")
"""What stands beside the older counts in the file, not among them."""


@dataclass(frozen=True)
class State:
    """All that a checkpoint holds.

    Attributes:
        tensors: of the parts and of the learner, by name.
        streams: states of the random streams.
        recipe: as plain data.
        kept: what parts keep beside tensors, by name (`cbrcore.interfaces.KeepsState`).
    """

    progress: Progress
    tensors: Mapping[str, Tensor]
    streams: Mapping[str, Any]
    memories: Mapping[str, CaseStore]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)


def save_checkpoint(folder: Path, state: State) -> Path:
    """Write one checkpoint below `folder` and drop all but the newest ones. It is made under a temporary name and
    renamed when complete, so a kill leaves the older one.

    Raises:
        RunFailed: a tensor is not finite; the last good checkpoint is kept.
    """
    games = state.progress.games_played
    temporary = folder / f".{games:08d}.{os.getpid()}.tmp"
    write_checkpoint(temporary, state)
    return keep_checkpoint(temporary, games)


def write_checkpoint(folder: Path, state: State) -> None:
    """Write one checkpoint into `folder`; if that fails, the folder is not there. See `save_checkpoint`."""
    for name, value in state.tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            said = f"not saved: {name} holds values that are not finite"
            raise RunFailed(said, hint="lower the learning rates (training.*_learning_rate)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        write_tensors(folder / TENSORS_FILE, state.tensors)
        for name, memory in state.memories.items():
            memory.save(folder / name)
        counts = asdict(state.progress)
        apart = {name: counts.pop(name) for name in APART} | {"recipe": state.recipe}
        apart |= {"kept": state.kept} if state.kept else {}
        facts = {"format": FORMAT, "torch": torch.__version__, "progress": counts, "streams": state.streams}
        write_atomically(folder / STATE_FILE, json.dumps(facts | apart))
        seal(folder, TENSORS_FILE, STATE_FILE, *state.memories)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def keep_checkpoint(temporary: Path, games: int) -> Path:
    """Give a complete checkpoint its name, a free one: a single rename makes it the newest. Then those go that are
    outdated, or of a future that was not reached again, and what killed processes left."""
    folder, names = temporary.parent, [f"{games:08d}", *(f"{games:08d}-{number}" for number in range(2, 100))]
    final = next(folder / name for name in names if not (folder / name).exists())
    temporary.rename(final)
    sync(folder)
    others = [(at, path) for at, path in _found(folder) if re.fullmatch(NAME, path.name) and path != final]
    before = [path for at, path in others if at < games]
    for path in (*before[: len(before) - KEPT + 1], *(path for at, path in others if at >= games)):
        shutil.rmtree(path, ignore_errors=True)
    clear_leftovers(folder, f"{NAME}|{LAST}")
    return final


def latest_checkpoint(folder: Path, tell: Callable[..., None] = log.warning) -> Path | None:
    """The checkpoint with the most finished games, by what it says of itself, not by its name. If it is damaged,
    the one before, with a warning; None if there are none at all.

    Raises:
        RunFolderError: there are some, and none can be used.
    """
    faults: list[str] = []
    for _, path in reversed(_found(folder)):
        if not (wrong := faults_of(path)):
            for fault in faults:
                tell("%s; the checkpoint before it is used: %s", fault, path)
            return path
        faults.append(f"damaged checkpoint {path}: {'; '.join(wrong)}")
    if faults:
        hint = f"put a copy of it back, or train anew: cbr run RECIPE --out {folder.parent} --overwrite"
        raise RunFolderError("\n".join(faults), hint=hint)
    return None


def faults_of(path: Path) -> list[str]:
    """What is wrong with a checkpoint; nothing if it can be used."""
    if found := damaged(path):
        return found
    try:
        state, _ = read_state(path)
    except RunFolderError as error:
        return [error.message]
    if state.get("format") == FORMAT and not (path / CHECKSUMS_FILE).exists():
        return [f"{CHECKSUMS_FILE} is missing"]
    return []


def _found(folder: Path) -> list[tuple[int, Path]]:
    """(finished games, path) of each checkpoint, the oldest first; damaged ones are there, too."""
    found = []
    for path in folder.glob("[!.]*/"):
        try:
            found.append((read_state(path)[1].games_played, path))
        except RunFolderError:
            if re.fullmatch(NAME, path.name):
                found.append((int(path.name[:8]), path))
    return sorted(found)


def read_state(path: Path) -> tuple[dict[str, Any], Progress]:
    """(what `STATE_FILE` of a checkpoint holds, and the counts in it); RunFolderError if it cannot be read."""
    try:
        state = json.loads((path / STATE_FILE).read_text(encoding="utf-8"))
        if state["format"] not in (FORMAT, WITHOUT_CHECKSUMS):
            raise RunFolderError(f"its format is {state['format']}, and this version reads {FORMAT}")
        apart = {"begun": state["progress"]["games_played"] > 0}
        apart |= {name: state[name] for name in APART if name in state}
        return state, Progress(**state["progress"], **apart)
    except FileNotFoundError:
        raise RunFolderError(f"{STATE_FILE} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunFolderError(f"{STATE_FILE} cannot be read ({error})") from error


def load_checkpoint(path: Path, memories: Mapping[str, CaseStore]) -> Loaded:
    """(progress, tensors on the CPU, states of the random streams); fills `memories`.

    Raises:
        RunFolderError: a file is missing or damaged, or of an unknown format.
    """
    if found := faults_of(path):
        raise RunFolderError(f"damaged checkpoint {path}: {'; '.join(found)}")
    state, progress = read_state(path)
    try:
        tensors, streams = load_file(path / TENSORS_FILE), state["streams"]
    except (OSError, KeyError, SafetensorError) as error:
        told = f"damaged checkpoint {path}: {TENSORS_FILE}: {error}"
        raise RunFolderError(told, hint="remove it to use the one before") from error
    for name, memory in memories.items():
        memory.load(path / name)
    return progress, tensors, streams


def restore_agent(path: Path, reasoner: CaseBasedReasoner, keepers: Mapping[str, KeepsState]) -> Loaded:
    """Fill the agent's modules, its memory and the keepers from a checkpoint; returns what `load_checkpoint` does.

    Values move to each module's own device, so a checkpoint from a GPU loads on a CPU and back.
    """
    memories = reasoner.retriever.memory.stores() if reasoner.retriever else {}
    progress, tensors, streams = load_checkpoint(path, memories)
    for name, module in reasoner.modules().items():
        prefix = f"{name}:"
        state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        try:
            module.load_state_dict(state)
        except RuntimeError as error:
            told = f"the checkpoint does not fit the {name}: {error}"
            raise RunFolderError(told, hint="resume with the recipe that wrote it") from error
    kept = read_state(path)[0].get("kept", {})
    for name, part in keepers.items():
        if name not in kept:
            raise RunFolderError(f"the checkpoint {path} holds nothing of the {name}")
        part.load_state(kept[name])
    return progress, tensors, streams
