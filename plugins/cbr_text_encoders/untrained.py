"""Random word vectors: no model, no download. For tests, and as the floor of comparisons."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from cbr_text_encoders.config import UntrainedConfig
from cbr_text_encoders.table import VectorTable
from cbrcore.interfaces import Build

_WORD = re.compile(r"\w+|[^\w\s]")


class UntrainedEncoder:
    """A text's vector is the mean of its words' vectors, each drawn from N(0, 1) and seeded by the word.

    The vectors do not depend on the run's seed, so they mean the same in every run.
    """

    def __init__(self, config: UntrainedConfig, build: Build) -> None:
        self.dim = config.dim
        self.identity = f"untrained-{config.dim}/v1"
        self._table = VectorTable(config.dim, build.device, self._compute)

    def __repr__(self) -> str:
        return f"UntrainedEncoder(dim={self.dim})"

    def encode(self, texts: Sequence[str]) -> Tensor:
        """[n, dim] float32, one row per text."""
        return self._table.lookup(texts)

    def _compute(self, texts: Sequence[str]) -> Tensor:
        return torch.stack([torch.from_numpy(self._mean_of_words(text)) for text in texts])

    def _mean_of_words(self, text: str) -> np.ndarray:
        words = _WORD.findall(text.lower()) or [""]  # a zero vector would be similar to nothing, even itself
        mean: np.ndarray = np.mean([_word_vector(word, self.dim) for word in words], axis=0)
        return mean.astype(np.float32)


@lru_cache(maxsize=10_000)
def _word_vector(word: str, dim: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(dim)
