"""Files that are whole or not there, and checksums that tell whether they are still what was written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore.errors import RunFolderError

if TYPE_CHECKING:
    from torch import Tensor

CHECKSUMS_FILE = "checksums.json"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, the quota or the largest allowed file is full."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError in the block names the path."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write to a temporary name beside it, then rename: after a power cut, too, the file is the new or the old one
    (not `durable`: if the caller syncs it). Half characters become escapes, as JSON has them. A device, a pipe and
    whatever else is no file stays what it is. OSError: it is the old one, and nothing else is left."""
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    if os.path.lexists(path) and not path.is_file():
        with writing(path):
            path.write_bytes(data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path), temporary.open("wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """A safetensors file, not private as the library's own writer makes it; shared memory under each name."""
    from safetensors.torch import save

    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with writing(path):
        path.write_bytes(save(plain, dict(metadata) if metadata else None))


def read_json(path: Path) -> Any:
    """A JSON file of a run folder; RunFolderError if it is missing or damaged, or holds NaN or Infinity."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number")
    return value


def unreadable(path: Path, why: object) -> RunFolderError:
    hint = f"put a copy of it back, or remove it: rm {shlex.quote(str(path))}"
    return RunFolderError(f"{path}: cannot be read: {why}", hint=hint)


def sync(path: Path) -> None:
    """See to it that a file, or the names in a folder, survive a power cut, where the file system can do that."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def clear_leftovers(folder: Path, names: str) -> None:
    """Remove what killed processes of ours left: the temporary names of files or folders that match `names`."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not is_leftover(path, names):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_leftover(path: Path, names: str) -> bool:
    return re.fullmatch(rf"\.({names})(\.\d+)?\.tmp", path.name) is not None


# -- checksums ---------------------------------------------------------------------------------------------------


def seal(folder: Path, *names: str, without: Collection[str] = ()) -> None:
    """Note the checksums of these files, and of all files in these folders; what is not there is not noted.

    Others stay as they were noted, but those named in `without`.
    """
    gone = (*names, *without)
    kept = {} if _is_damaged(folder) else _noted(folder)
    noted = {file: facts for file, facts in kept.items() if file.partition("/")[0] not in gone}
    for path in (path for name in names for path in _files(folder / name)):
        sync(path)
        noted[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    write_atomically(folder / CHECKSUMS_FILE, json.dumps({"files": noted}, indent=1, ensure_ascii=False))


def damaged(folder: Path) -> list[str]:
    """What is not as it was when its checksum was noted, one line each: "memory/cases.jsonl is empty". Nothing for
    a folder without checksums, as older versions left it."""
    if fault := _is_damaged(folder):
        return [fault]
    return [f"{name} {fault}" for name, facts in _noted(folder).items() if (fault := _fault(folder / name, facts))]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())


def _noted(folder: Path) -> dict[str, dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        files = json.loads((folder / CHECKSUMS_FILE).read_text(encoding="utf-8"))["files"]
        return {name: {"bytes": int(facts["bytes"]), "sha256": facts["sha256"]} for name, facts in files.items()}
    return {}


def _is_damaged(folder: Path) -> str:
    """What is wrong with the file of the checksums itself; empty if nothing is."""
    try:
        _noted(folder)
    except PermissionError:
        return f"{CHECKSUMS_FILE} may not be read (permission denied)"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"{CHECKSUMS_FILE} is damaged"
    return ""


def _fault(path: Path, facts: Mapping[str, Any]) -> str:
    try:
        size = path.stat().st_size
        if size != facts["bytes"]:
            return f"has {size} bytes instead of {facts['bytes']}" if size else "is empty"
        return "" if sha256_of(path) == facts["sha256"] else "is not what was written (its checksum is another)"
    except FileNotFoundError:
        return "is missing"
    except PermissionError:
        return "may not be read (permission denied)"
    except (OSError, ValueError) as error:
        return f"cannot be read ({error})"


def sha256_of(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
