"""Finds and loads a causal language model of transformers; nothing is downloaded unless it is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cbrcore import ModelError, expand_path
from huggingface_hub import try_to_load_from_cache

from cbr_llm.config import LlmConfig

NOTE = "trained_on.json"
"""Beside the weights, if whoever trained them left it: {"trained_on": what}."""
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer, frozen.

    Attributes:
        longest: tokens that the model can take, None if it does not say.
        note: what it is, for the results.
    """

    model: Any
    tokenizer: Any
    longest: int | None
    note: str


def find_model(config: LlmConfig, recipe_dir: Path) -> str:
    """The folder or the name under which transformers finds the model.

    Raises:
        ModelError: it is neither a folder nor in the cache, and may not be downloaded.
        CbrError: the setting holds a $VARIABLE that is not set.
    """
    if "$" in config.model or config.model.startswith(("~", ".", "/")):
        folder = expand_path(config.model, recipe_dir)
    else:
        folder = recipe_dir / config.model
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"agent.model: {folder} holds no config.json", hint=_ways_out(config.model))
        return str(folder)
    if not _HUB_NAME.fullmatch(config.model):
        raise ModelError(f"agent.model: there is no folder {folder}", hint=_ways_out(config.model))
    if config.local_files_only and not _cached(config):
        raise ModelError(
            f"agent.model: {config.model!r} is no folder ({folder}), and not in the cache of the Hugging Face Hub",
            hint=_ways_out(config.model),
        )
    return config.model


def _cached(config: LlmConfig) -> bool:
    try:
        return isinstance(try_to_load_from_cache(config.model, "config.json", revision=config.revision), str)
    except ValueError:  # no name that the hub could have
        return False


def _ways_out(model: str) -> str:
    return (
        f"Type: hf download {model}; or set `local_files_only: false`, which downloads it; or make a tiny one: "
        f"cbr tiny-llm RECIPE --out {model}"
    )


def load_model(config: LlmConfig, recipe_dir: Path, device: str) -> Loaded:
    """Model and tokenizer; from safetensors, without code of the model's author.

    Raises:
        ModelError: see `find_model`; or something is missing or damaged.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    where = find_model(config, recipe_dir)
    mine = {"revision": config.revision, "local_files_only": config.local_files_only, "trust_remote_code": False}
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **mine)
        model, told = AutoModelForCausalLM.from_pretrained(
            where, dtype=getattr(torch, config.dtype), use_safetensors=True, output_loading_info=True, **mine
        )
    except Exception as error:  # transformers, tokenizers, safetensors and the hub raise what they like
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise ModelError(
            f"agent.model: {config.model!r} cannot be loaded: {reason}", hint=_ways_out(config.model)
        ) from error
    if told["missing_keys"] or told.get("mismatched_keys"):
        some = sorted(map(str, told["missing_keys"] or told["mismatched_keys"]))[0]
        raise ModelError(f"agent.model: {config.model!r} lacks weights, as {some}", hint=_ways_out(config.model))
    model = model.to(device).eval().requires_grad_(False)
    return Loaded(model, tokenizer, _longest(model.config), _note(model, Path(where), config))


def _longest(config: Any) -> int | None:
    return next(
        (
            int(value)
            for name in ("max_position_embeddings", "n_positions", "max_sequence_length")
            if isinstance(value := getattr(config, name, None), int)
        ),
        None,
    )


def _note(model: Any, folder: Path, config: LlmConfig) -> str:
    size = sum(parameter.numel() for parameter in model.parameters())
    told = f"{config.model}: {model.config.model_type}, {size:,} parameters, frozen"
    note = folder / NOTE
    written: Mapping[str, Any] = json.loads(note.read_text()) if note.is_file() else {}
    return f"{told}; trained on {written['trained_on']}" if written.get("trained_on") else told
