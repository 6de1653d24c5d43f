"""A frozen transformer as text encoder; the model is loaded only when a text is not known yet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from cbr_text_encoders.cache import CachedVectors, CacheFile
from cbr_text_encoders.config import TransformerConfig
from cbr_text_encoders.folder import find_folder, fingerprint, further_files
from cbr_text_encoders.sound import read_config
from cbr_text_encoders.table import VectorTable
from cbrcore.errors import ModelError
from cbrcore.interfaces import Build

MODEL_HINT = "download the model's files again, or leave `model` out to use the packaged MiniLM"


class TransformerEncoder:
    """Mean-pooled or first-token vectors of a transformers model.

    A text's vector has the same bits whatever else is encoded with it, now or in an earlier run: each text
    goes through the model alone, on one thread. (A batch of equal length was measured to change the last
    bits of short texts.) Each distinct text does so once; then it is in memory and in the cache file.

    Raises:
        ModelError: the model cannot be found, lacks a file or is damaged.
    """

    def __init__(self, config: TransformerConfig, build: Build) -> None:
        file = CacheFile(build.cache_dir / "texts.sqlite3") if config.cache else None
        self.config = config
        self.device = build.device
        self.folder = find_folder(config.model, build.recipe_dir, file)
        facts = read_config(self.folder)
        self.dim: int = facts["dim"]
        model = f"{facts['model_type']}-{self.dim}@{fingerprint(self.folder, file)}"
        self.identity = f"{model}/{config.pooling}/{config.max_tokens}/v1"
        store = self._store(file) if file else None
        self._table = VectorTable(self.dim, build.device, self._compute, store)

    def _store(self, file: CacheFile) -> CachedVectors:
        """Vectors of this model, this machine and these versions; "checked" are those with a checksum."""
        made_by = (self.identity, _machinery(self.device), further_files(self.folder, file), "checked")
        return CachedVectors(file, "/".join(made_by), self.dim)

    def __repr__(self) -> str:
        return f"TransformerEncoder({self.config.model or 'packaged MiniLM'}, {self.identity})"

    def encode(self, texts: Sequence[str]) -> Tensor:
        """[n, dim] float32, one row per text.

        Raises:
            ModelError: the model cannot be loaded, or its vector for a text is not finite (the text is named).
        """
        return self._table.lookup(texts)

    def _compute(self, texts: Sequence[str]) -> Tensor:
        """n texts -> [n, dim]."""
        with torch.no_grad(), _one_thread():
            return torch.stack([self._checked(text) for text in texts])

    def _checked(self, text: str) -> Tensor:
        """[dim]; ModelError names the folder, and a text for which the model has no such vector."""
        loaded = self._loaded
        try:
            vector = self._vector(text, *loaded)
            if vector.shape != (self.dim,):
                raise ValueError(f"a vector of shape {list(vector.shape)}; config.json says {self.dim}")
        except Exception as error:  # whatever torch raises where tokeniser and model do not fit each other
            raise ModelError(
                f"the text encoder in {self.folder} fails on the text {text!r:.80}: {error}", hint=MODEL_HINT
            ) from error
        return vector

    def _vector(self, text: str, tokenizer: Any, model: Any, limit: int) -> Tensor:
        tokens = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt").to(self.device)
        hidden: Tensor = model(**tokens).last_hidden_state[0]  # [tokens, dim]
        return hidden[0] if self.config.pooling == "cls" else hidden.mean(dim=0)

    @cached_property
    def _loaded(self) -> tuple[Any, Any, int]:
        """Tokeniser, model, and the most tokens that both and the settings allow."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
        try:
            with _quiet():
                tokenizer, model = self._load()
            limits = (self.config.max_tokens, tokenizer.model_max_length, _positions(model.config))
            return tokenizer, model, min(limits)
        except Exception as error:  # whatever transformers raises for a damaged or unknown model
            raise ModelError(
                f"the text encoder in {self.folder} cannot be loaded: {error}", hint=MODEL_HINT
            ) from error

    def _load(self) -> tuple[Any, Any]:
        from transformers import AutoModel, AutoTokenizer

        folder, mine = str(self.folder), {"local_files_only": True, "trust_remote_code": False}
        # cut on the left: what happened last stands at the end of a text
        tokenizer = AutoTokenizer.from_pretrained(folder, truncation_side="left", **mine)
        model, told = AutoModel.from_pretrained(folder, use_safetensors=True, output_loading_info=True, **mine)
        absent = sorted(name for name in told["missing_keys"] if "pooler" not in name)
        if absent:  # they were drawn at random
            raise ModelError(f"the weights lack {len(absent)} tensors, among them {absent[0]}")
        return tokenizer, model.float().eval().requires_grad_(False).to(self.device)


def _positions(config: Any) -> int:
    """How many tokens have a position embedding; RoBERTa's family keeps the first two for padding."""
    positions = getattr(config, "max_position_embeddings", None) or sys.maxsize
    return positions - 2 if getattr(config, "pad_token_id", 0) == 1 else positions


def _machinery(device: str) -> str:
    """What rounds differently: a vector from another machine or version is not taken from the cache."""
    versions = "/".join(f"{name}-{version(name)}" for name in ("torch", "transformers", "tokenizers"))
    return f"{device.partition(':')[0]}/{torch.backends.cpu.get_cpu_capability()}/{versions}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums do not depend on how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar and no notes about unused heads while a model loads."""
    from transformers import utils

    logging: Any = utils.logging  # untyped
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
