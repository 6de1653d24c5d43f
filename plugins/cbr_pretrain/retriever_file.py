"""A pretrained retriever as a file: the tensors of context encoder and quantizer, and what they belong to."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import RunFolderError
from cbrcore.runs.files import CHECKSUMS_FILE, damaged, write_tensors
from cbrcore.runs.folder import read_json

log = logging.getLogger(__name__)

FILE = "retriever.safetensors"
REPORT_FILE = "pretraining.json"
"""What `cbr pretrain` leaves beside it."""
PLAYED = ("steps", "plays")
IDENTITY = "identity"


def save_retriever(retriever: Retriever, folder: Path) -> None:
    """Write `FILE` into the folder."""
    tensors = {
        f"{name}:{key}": value
        for name, module in retriever.modules().items()
        for key, value in module.state_dict().items()
    }
    write_tensors(folder / FILE, tensors, {IDENTITY: retriever.identity})


def load_retriever(retriever: Retriever, folder: Path) -> None:
    """Fill context encoder and quantizer from `FILE` in the folder.

    Raises:
        RunFolderError: it is not there, is damaged, or belongs to other settings.
    """
    path = folder / FILE
    if wrong := [fault for fault in damaged(folder) if fault.startswith((FILE, CHECKSUMS_FILE))]:
        said = f"{folder}: not a pretrained retriever: {wrong[0]}"
        raise RunFolderError(said, hint="make one: cbr pretrain RECIPE")
    try:
        with safe_open(str(path), framework="pt") as file:
            identity = (file.metadata() or {})[IDENTITY]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (OSError, KeyError, SafetensorError) as error:
        said = f"{path}: not a pretrained retriever: {error}"
        raise RunFolderError(said, hint="make one: cbr pretrain RECIPE") from error
    here = retriever.identity
    if identity != here:
        raise RunFolderError(
            f"{path} was pretrained with other settings.\n  there: {identity}\n  here:  {here}",
            hint="pretrain with this recipe: cbr pretrain RECIPE",
        )
    for name, module in retriever.modules().items():
        prefix = f"{name}:"
        module.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})


def played_before(folder: Path) -> dict[str, int | None]:
    """Environment steps and game plays that the retriever in the folder cost, as its own file says; None where it
    does not say (an older version wrote it, or it is damaged or missing)."""
    facts = _facts(folder)
    found = {name: value if type(value := facts.get(name)) is int and value >= 0 else None for name in PLAYED}
    if None in found.values():
        said = "%s does not say how many steps and game plays there were: the run cannot count them"
        log.warning(said, folder / REPORT_FILE)
    return found


def _facts(folder: Path) -> dict[str, Any]:
    """What `REPORT_FILE` holds; nothing if it is damaged."""
    if any(fault.startswith(REPORT_FILE) for fault in damaged(folder)):
        return {}
    with contextlib.suppress(RunFolderError):
        facts = read_json(folder / REPORT_FILE)
        return facts if isinstance(facts, dict) else {}
    return {}
