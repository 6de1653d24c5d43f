"""A file that remembers encoded texts, shared by all runs of a user. Nothing depends on it but speed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cbr_cache.checksums import file_state
from cbr_cache.database import Database, Table
from cbr_cache.entries import Entries

VECTORS = Table("vectors", "encoder", "text", "vector")
DIGESTS = Table("digests", "kind", "file", "sha256")

SETTLED_S = 2.0
"""A file that changed so lately may change again within the same tick of its clock."""


class CacheFile(Database):
    """The SQLite file of encoded texts; a connection lives for one piece of work (forks!).

    Args:
        path: the file; made with its folders if it is not there.
        patience: seconds to wait for another process's lock.
    """

    def __init__(self, path: Path, *, patience: float = 5.0) -> None:
        super().__init__(path, "the cache of encoded texts", (VECTORS, DIGESTS), patience=patience)


class CachedVectors:
    """The vectors of one encoder in a cache file; keys are the encoder and the sha256 of the text.

    Args:
        file: where they are.
        encoder: everything the bits of a vector depend on.
        dim: width of a vector.
    """

    def __init__(self, file: CacheFile, encoder: str, dim: int) -> None:
        self._entries = Entries(file, VECTORS, encoder)
        self._dim = dim

    def __repr__(self) -> str:
        return f"CachedVectors({self._entries!r})"

    def load(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """The known ones of `texts`, each [dim] float32; one that is damaged is not among them."""
        keys = {text: _key(text) for text in texts}
        found = self._entries.get(keys.values())
        vectors = {text: self._decode(key, found[key]) for text, key in keys.items() if key in found}
        return {text: vector for text, vector in vectors.items() if vector is not None}

    def save(self, vectors: dict[str, Tensor]) -> None:
        """Remember `vectors`, each [dim]; one that is not finite, or of another width, is not kept."""
        right = {t: v for t, v in vectors.items() if v.shape == (self._dim,) and bool(v.isfinite().all())}
        self._entries.put({_key(t): v.numpy().astype("<f4").tobytes() for t, v in right.items()})

    def _decode(self, key: bytes, blob: bytes) -> Tensor | None:
        if len(blob) != 4 * self._dim:
            self._entries.refuse(key, f"is no vector of {self._dim} numbers")
            return None
        return torch.from_numpy(np.frombuffer(blob, dtype="<f4").astype(np.float32))


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def sha256_of(path: Path, cache: CacheFile | None = None) -> str:
    """The file's sha256, from the cache as long as nothing about the file has changed (see `file_state`).

    Raises:
        OSError: the file cannot be read.
    """
    state = file_state(path)
    key = repr(state).encode(errors="surrogateescape")
    entries = Entries(cache, DIGESTS, "sha256 1") if cache else None
    known = entries.find(key) if entries else None
    if known is not None:
        return known.decode()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if entries and _is_settled(path.stat().st_ctime_ns) and file_state(path) == state:
        entries.put({key: digest.encode()})
    return digest


def _is_settled(changed_ns: int) -> bool:
    return abs(time.time_ns() - changed_ns) > SETTLED_S * 1e9
