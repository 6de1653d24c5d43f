"""A pretrained retriever as a file: the tensors of context encoder and quantizer, and what they belong to."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import RunFolderError
from cbrcore.runs.files import CHECKSUMS_FILE, damaged, write_tensors

FILE = "retriever.safetensors"
IDENTITY = "identity"


def save_retriever(retriever: Retriever, folder: Path) -> None:
    """Write `FILE` into the folder."""
    tensors = {
        f"{name}:{key}": value.detach().cpu().contiguous()
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
