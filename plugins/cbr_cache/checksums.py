"""Checksums of entries, and what tells one state of a file from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

CHECKSUM_BYTES = 16
LENGTH_BYTES = 8


class Checksums:
    """Checksums of values, of their keys, and of what made them.

    A value that was damaged, that stands under another key, or that another version or setting made, has another
    checksum.

    Args:
        identity: everything that the values depend on besides their keys: versions, settings, format.
    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        made_by = identity.encode()
        self._base = hashlib.blake2b(
            len(made_by).to_bytes(LENGTH_BYTES, "big") + made_by, digest_size=CHECKSUM_BYTES
        )

    def __repr__(self) -> str:
        return f"Checksums({self.identity!r})"

    def of(self, key: bytes, value: bytes) -> bytes:
        """[CHECKSUM_BYTES] of a value under its key."""
        digest = self._base.copy()
        digest.update(len(key).to_bytes(LENGTH_BYTES, "big") + key + value)
        return digest.digest()


FileState = tuple[str, int, int, int, int, int]


def file_state(path: Path) -> FileState:
    """(real path, device, inode, size, time of change of content, of the inode in ns).

    Equal states mean an equal content. The size and the time of the content alone do not: ``cp -p`` and ``touch``
    set that time at will. The time of the inode is the system's own.

    Raises:
        OSError: the file is not there or cannot be looked at.
    """
    status = path.stat()
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return (str(path.resolve()), *numbers)
