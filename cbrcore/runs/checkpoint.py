"""Checkpoints: safetensors + JSON, complete or absent. Nothing that could run code is ever loaded."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.errors import RunFolderError
from cbrcore.interfaces import CaseStore
from cbrcore.types import Episode

log = logging.getLogger(__name__)

STATE_FILE = "state.json"
TENSORS_FILE = "tensors.safetensors"
FORMAT = 2
KEPT = 2
LAST_SCORES = 100


@dataclass
class Progress:
    """Everything a run counts, as plain data.

    `games_played` is the number of finished game plays ("episode" in metrics.jsonl); `recent_scores` are the final
    scores of the last 100, `endings` says how many ended in which way.
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

    def count(self, episode: Episode) -> None:
        """Take in a finished game play of the training."""
        self.games_played += 1
        self.recent_scores = [*self.recent_scores, episode.score][-LAST_SCORES:]
        self.best_score = episode.score if self.best_score is None else max(self.best_score, episode.score)
        ending = str(episode.ending)
        self.endings[ending] = self.endings.get(ending, 0) + 1


def save_checkpoint(
    folder: Path,
    progress: Progress,
    tensors: dict[str, Tensor],
    streams: dict[str, Any],
    memories: Mapping[str, CaseStore],
) -> Path:
    """Write one checkpoint below `folder` and drop all but the newest ones. It is made under a temporary name and
    renamed when complete, so a kill leaves the older one.

    Raises:
        RunFolderError: a tensor is not finite; the last good checkpoint is kept.
    """
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise RunFolderError(f"not saved: {name} holds values that are not finite")
    games = f"{progress.games_played:08d}"
    temporary = folder / f".{games}.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    save_file(plain, temporary / TENSORS_FILE)
    for name, memory in memories.items():
        memory.save(temporary / name)
    state = {"format": FORMAT, "torch": torch.__version__, "progress": asdict(progress), "streams": streams}
    (temporary / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")
    names = (games, *(f"{games}-{number}" for number in range(2, 100)))
    final = next(folder / free for free in names if not (folder / free).exists())
    temporary.rename(final)
    outdated = [path for _, path in _complete(folder)[:-KEPT]]
    for leftover in (*folder.glob(".*.tmp"), *outdated):
        shutil.rmtree(leftover, ignore_errors=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint with the most finished games, by what it says of itself, not by its name."""
    found = _complete(folder)
    return found[-1][1] if found else None


def _complete(folder: Path) -> list[tuple[int, Path]]:
    """(finished games, path) of each checkpoint that is whole, the oldest first."""
    found = []
    for path in sorted(folder.glob(f"[!.]*/{STATE_FILE}")):
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            found.append((state["progress"]["games_played"] + 0, path.parent))
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("%s is damaged and not used", path)
    return sorted(found)


def load_checkpoint(
    path: Path, memories: Mapping[str, CaseStore]
) -> tuple[Progress, dict[str, Tensor], dict[str, Any]]:
    """(progress, tensors on the CPU, states of the random streams); fills `memories`.

    Raises:
        RunFolderError: a file is missing or damaged, or of an unknown format.
    """
    try:
        state = json.loads((path / STATE_FILE).read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise RunFolderError(f"{path}: checkpoint format {state['format']}; this version reads {FORMAT}")
        tensors = load_file(path / TENSORS_FILE)
        progress = Progress(**state["progress"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        told = f"{path}: damaged checkpoint: {error}"
        raise RunFolderError(told, hint="remove it to use the one before") from error
    for name, memory in memories.items():
        memory.load(path / name)
    return progress, tensors, state["streams"]


def restore_agent(path: Path, reasoner: CaseBasedReasoner) -> tuple[Progress, dict[str, Tensor], dict[str, Any]]:
    """Fill the agent's modules and memory from a checkpoint; returns what `load_checkpoint` does.

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
    return progress, tensors, streams
