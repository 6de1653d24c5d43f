"""A folder that holds one complete set of compiled games, or is not there.

Its manifest has the digest of every file, and a checksum of its own over all it says and the folder's name, which
tells what made the set.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cbr_cache.checksums import Checksums

GameSet = dict[str, list[Path]]
"""Split -> its `.z8` files in order."""

MANIFEST = "manifest.json"

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What Python raises on files that are not there, and on a manifest of another shape."""


def read_set(folder: Path) -> GameSet | None:
    """The games of `folder`, or None where it is missing, half-made or damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if manifest["checksum"] != _checksum(folder, manifest):
            return None
        for name, digest in manifest["sha256"].items():
            if _sha256(folder / name) != digest:
                return None
        return {split: [folder / name for name in names] for split, names in manifest["splits"].items()}
    except UNREADABLE:
        return None


@contextmanager
def new_set(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill; `write_manifest` and `publish` it before the end, or it is thrown away."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        fresh = Path(scratch) / "games"
        fresh.mkdir()
        yield fresh


def write_manifest(fresh: Path, folder: Path, splits: Mapping[str, list[str]]) -> None:
    """Name the games of each split (paths relative to `fresh`) and the digest of every file there.

    Args:
        folder: where the set will be.
    """
    files = sorted(path for path in fresh.rglob("*") if path.is_file())
    digests = {path.relative_to(fresh).as_posix(): _sha256(path) for path in files}
    manifest = {"splits": splits, "sha256": digests}
    sealed = {**manifest, "checksum": _checksum(folder, manifest)}
    (fresh / MANIFEST).write_text(json.dumps(sealed, indent=1), "utf-8")


def publish(fresh: Path, folder: Path) -> None:
    """Put the filled folder in place in one move; a damaged one that stands there is moved out of the way."""
    try:
        fresh.rename(folder)
    except OSError:
        if read_set(folder) is not None:
            return  # another process was faster, and made the same games
        folder.rename(fresh.with_name("damaged"))
        fresh.rename(folder)


@contextmanager
def one_builder(folder: Path) -> Iterator[None]:
    """Let one process at a time build `folder`; where the file system has no locks, `publish` alone decides."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as handle:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _checksum(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Over what a manifest says, and of which set."""
    said = json.dumps([manifest["splits"], manifest["sha256"]])
    return Checksums(f"twc-generated {folder.name}").of(MANIFEST.encode(), said.encode()).hex()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
