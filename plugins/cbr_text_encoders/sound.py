"""Whether a model's folder is sound and needs no code of its own: looked at before transformers sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from cbrcore.errors import ModelError

WAYS_OUT = (
    "without a hub: leave `model` out to use the packaged MiniLM, "
    "or set `model` to a folder with config.json, tokenizer.json and model.safetensors"
)
TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
"""Says which shards (other .safetensors files) hold which tensors."""

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".pkl")
"""Suffixes of weights in other formats, most of which can run code."""

WITH_CODE = ("config.json", "tokenizer_config.json")
"""Files in which a model may name code of its own."""

WIDTHS = ("hidden_size", "dim", "d_model")
LARGEST_WIDTH = 1 << 20


def require_sound(folder: Path, model: str) -> None:
    """The folder is complete, needs no code of its own, and its weights are whole as far as their headers tell.

    Args:
        model: what the recipe calls it.

    Raises:
        ModelError: it is not.
    """
    require_complete(folder, model)
    for name in WITH_CODE:
        if os.path.lexists(folder / name) and (code := read_object(folder / name).get("auto_map")):
            raise ModelError(
                f"text encoder {model!r}: {folder / name} asks to run code of its own (auto_map: {code!r:.200}), "
                "which is never done",
                hint=f"take a model that transformers knows by itself; {WAYS_OUT}",
            )
    for shard, tensors in _shards(folder).items():
        _check_weights(folder / shard, tensors)


def require_complete(folder: Path, model: str) -> None:
    """ModelError unless the folder has all files that a model needs."""
    if lacks := missing(folder):
        raise ModelError(f"text encoder {model!r}: {folder} lacks {', '.join(lacks)}", hint=WAYS_OUT)
    for path in sorted(folder.iterdir()):
        if (
            path.name in ("config.json", "tokenizer_config.json", INDEX, *TOKENIZERS)
            or path.suffix == ".safetensors"
        ):
            _check_readable(path, model)


def missing(folder: Path) -> list[str]:
    """What a usable model folder needs and this one lacks, with the reason where there is one."""
    lacks = [] if os.path.lexists(folder / "config.json") else ["config.json"]
    if not any(os.path.lexists(folder / name) for name in TOKENIZERS):
        lacks.append("tokenizer.json (or vocab.txt)")
    if not any(os.path.lexists(folder / name) for name in (WEIGHTS, INDEX)):
        others = sorted(path.name for path in folder.iterdir() if path.suffix in (*PICKLES, ".safetensors"))
        lacks.append(WEIGHTS + (f" (weights in another form are not read: {', '.join(others)})" if others else ""))
    return lacks


def not_there(path: Path, kind: str) -> str:
    """Why `path`, which is something, is no `kind` ("file" or "folder")."""
    if not path.exists():
        return f"{path} is a link to {os.readlink(path)}, which does not exist"
    other = "a folder" if path.is_dir() else "a file" if path.is_file() else "a device"
    return f"{path} is {other}, not a {kind}"


def _check_readable(path: Path, model: str) -> None:
    if not path.is_file():
        raise ModelError(f"text encoder {model!r}: {not_there(path, 'file')}", hint=WAYS_OUT)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ModelError(
            f"text encoder {model!r}: {path} cannot be read: {error.strerror}", hint=f"chmod u+r '{path}'"
        ) from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ModelError: it holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no JSON: {_brief(error)}", hint=WAYS_OUT) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} is no JSON object but {type(found).__name__}", hint=WAYS_OUT)
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """config.json with the width of a token's vector under "dim" and the kind of model under "model_type".

    Raises:
        ModelError: the file is not JSON, or does not tell the width.
    """
    path = folder / "config.json"
    config = {"model_type": "model", **read_object(path)}
    dim = next((config[key] for key in WIDTHS if key in config), None)
    kind = config["model_type"]
    if not isinstance(dim, int) or isinstance(dim, bool) or not 0 < dim <= LARGEST_WIDTH:
        raise ModelError(f"{path} tells no width of a vector: hidden_size is {dim!r:.80}", hint=WAYS_OUT)
    if not isinstance(kind, str) or not kind.isascii() or not kind.isprintable():
        raise ModelError(f"{path} tells no kind of model: model_type is {kind!r:.80}", hint=WAYS_OUT)
    return {**config, "dim": dim}


def _shards(folder: Path) -> dict[str, set[str]]:
    """Weight file -> the tensors that the index looks for in it; transformers prefers the one file, so do we."""
    if os.path.lexists(folder / WEIGHTS):
        return {WEIGHTS: set()}
    shards: dict[str, set[str]] = {}
    for tensor, shard in _weight_map(folder / INDEX):
        shards.setdefault(shard, set()).add(tensor)
    lacks = [shard for shard in sorted(shards) if Path(shard).name != shard or not (folder / shard).is_file()]
    if lacks or not shards:
        named = ", ".join(map(repr, lacks[:5])) or "no file"
        raise ModelError(f"{folder / INDEX} names {named}, which the folder does not have", hint=WAYS_OUT)
    return shards


def _weight_map(path: Path) -> Iterator[tuple[str, str]]:
    found = read_object(path).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(shard, str) for shard in found.values()):
        raise ModelError(f"{path} has no weight_map of tensors to files", hint=WAYS_OUT)
    yield from found.items()


def _check_weights(path: Path, tensors: set[str]) -> None:
    """Only the header is read."""
    try:
        with safe_open(str(path), framework="numpy") as weights:
            lacks = sorted(tensors.difference(weights.keys()))
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"the text encoder's weights {path} are damaged and cannot be loaded: {_brief(error)}",
            hint=f"download the model's files again; {WAYS_OUT}",
        ) from error
    if lacks:
        raise ModelError(f"{path} lacks the tensor {lacks[0]!r} that {INDEX} looks for in it", hint=WAYS_OUT)


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
