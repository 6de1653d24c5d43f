"""A folder that holds one complete set of compiled games, or is not there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

GameSet = dict[str, list[Path]]
"""Split -> its `.z8` files in order."""

MANIFEST = "manifest.json"


def read_set(folder: Path) -> GameSet | None:
    """The games of `folder`, or None where it is missing, half-made or damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        for name, digest in manifest["sha256"].items():
            if _sha256(folder / name) != digest:
                return None
        return {split: [folder / name for name in names] for split, names in manifest["splits"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@contextmanager
def new_set(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill; `write_manifest` and `publish` it before the end, or it is thrown away."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        fresh = Path(scratch) / "games"
        fresh.mkdir()
        yield fresh


def write_manifest(fresh: Path, splits: Mapping[str, list[str]]) -> None:
    """Name the games of each split (paths relative to `fresh`) and the digest of every file there."""
    files = sorted(path for path in fresh.rglob("*") if path.is_file())
    digests = {path.relative_to(fresh).as_posix(): _sha256(path) for path in files}
    (fresh / MANIFEST).write_text(json.dumps({"splits": splits, "sha256": digests}, indent=1), "utf-8")


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


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
