"""A file that remembers encoded texts, shared by all runs of a user. Nothing depends on it but speed."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

logger = logging.getLogger(__name__)
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    encoder TEXT, text BLOB, vector BLOB, PRIMARY KEY (encoder, text)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digests (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, sha256 TEXT) WITHOUT ROWID;
"""


class CacheFile:
    """An SQLite file that several processes may use at once; a connection lives for one piece of work (forks!).

    If the file is damaged, locked or cannot be written, one warning is logged and the cache answers nothing.

    Args:
        path: the file; made with its folders if it is not there.
        patience: seconds to wait for another process's lock.
    """

    def __init__(self, path: Path, *, patience: float = 5.0) -> None:
        self.path = path
        self._patience = patience
        self._usable = True

    def __repr__(self) -> str:
        return f"CacheFile({str(self.path)!r}{'' if self._usable else ', unusable'})"

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` returns, in one transaction; None if the file cannot be used."""
        if not self._usable:
            return None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=self._patience)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.executescript(_SCHEMA)
                with connection:
                    return work(connection)
        except (sqlite3.Error, OSError) as error:
            self._usable = False
            logger.warning(
                "the cache of encoded texts is not used, texts are encoded again: %s: %s. "
                "If this stays, delete the file.",
                self.path,
                error,
            )
            return None


class CachedVectors:
    """The vectors of one encoder in a cache file; keys are the encoder and the sha256 of the text.

    Args:
        file: where they are.
        encoder: everything the bits of a vector depend on.
        dim: width of a vector; an entry of another width, or one that is not finite, is damaged and ignored.
    """

    def __init__(self, file: CacheFile, encoder: str, dim: int) -> None:
        self._file = file
        self._encoder = encoder
        self._dim = dim

    def __repr__(self) -> str:
        return f"CachedVectors({self._encoder!r})"

    def load(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """The known ones of `texts`, each [dim] float32."""

        def work(connection: sqlite3.Connection) -> list[bytes | None]:
            query = "SELECT vector FROM vectors WHERE encoder = ? AND text = ?"
            rows = [connection.execute(query, (self._encoder, _key(text))).fetchone() for text in texts]
            return [row and row[0] for row in rows]

        blobs = self._file.run(work) or []
        vectors = {text: self._decode(blob) for text, blob in zip(texts, blobs, strict=False) if blob}
        return {text: vector for text, vector in vectors.items() if vector is not None}

    def save(self, vectors: dict[str, Tensor]) -> None:
        """Remember `vectors`, each [dim]."""
        rows = [(self._encoder, _key(t), v.numpy().astype("<f4").tobytes()) for t, v in vectors.items()]
        self._file.run(lambda connection: connection.executemany("REPLACE INTO vectors VALUES (?, ?, ?)", rows))

    def _decode(self, blob: bytes) -> Tensor | None:
        if len(blob) != 4 * self._dim:
            return None
        vector = np.frombuffer(blob, dtype="<f4").astype(np.float32)
        return torch.from_numpy(vector) if np.isfinite(vector).all() else None


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def sha256_of(path: Path, cache: CacheFile | None = None) -> str:
    """The file's sha256, from the cache as long as path, size and time of change are the same.

    Raises:
        OSError: the file cannot be read.
    """
    status = path.stat()
    known = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    query = "SELECT sha256 FROM digests WHERE path = ? AND size = ? AND mtime_ns = ?"
    row = cache.run(lambda connection: connection.execute(query, known).fetchone()) if cache else None
    if row:
        return str(row[0])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if cache:
        cache.run(
            lambda connection: connection.execute("REPLACE INTO digests VALUES (?, ?, ?, ?)", (*known, digest))
        )
    return digest
