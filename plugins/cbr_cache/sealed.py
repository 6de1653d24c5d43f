"""Files that are made once and kept, each with a seal beside it: a checksum over what made it and its content."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from cbr_cache.checksums import Checksums

log = logging.getLogger(__name__)

SUFFIX = ".seal"


def is_whole(path: Path, identity: str) -> bool:
    """Whether `path` is a file that `keep` put there for this identity, unchanged; a warning if it is another."""
    if not os.path.lexists(path):
        return False
    try:
        if path.is_file() and _seal_file(path).read_bytes() == _seal(path, path.name, identity):
            return True
        why = "does not fit its checksum"
    except OSError as error:
        why = f"has no checksum that can be read ({error.strerror})"
    log.warning("%s %s: it is made anew", path, why)
    return False


def keep(fresh: Path, path: Path, identity: str) -> None:
    """Seal the file `fresh`, and put it in place in one move. Its folder is the caller's own.

    The seal goes first: whoever looks in between, or after this was killed, finds a file that does not fit its
    seal, and makes it anew.

    Args:
        fresh: on the same file system as `path`.
        identity: everything that the content depends on.

    Raises:
        OSError: it cannot be written.
    """
    seal = _seal_file(fresh)
    seal.write_bytes(_seal(fresh, path.name, identity))
    _move(seal, _seal_file(path))
    _move(fresh, path)


def _move(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    os.replace(source, target)


def _seal_file(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _seal(path: Path, name: str, identity: str) -> bytes:
    return Checksums(identity).of(name.encode(), path.read_bytes()).hex().encode()
