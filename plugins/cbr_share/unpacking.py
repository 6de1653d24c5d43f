"""FILE.cbr -> a run's folder in the cache. What is read was written by others: it is checked before it is used.

Nothing is unpickled; a member that is not as the manifest says is never unpacked under its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import zipfile
from importlib import metadata
from pathlib import Path
from typing import IO

from filelock import FileLock

from cbr_share.manifest import (
    KINDS,
    MAKE_ANEW,
    MANIFEST_FILE,
    NAME,
    Manifest,
    most_bytes,
    read_manifest,
)
from cbrcore.config import cache_dir
from cbrcore.errors import CbrError, free_mebibytes
from cbrcore.runs.files import sha256_of
from cbrcore.runs.folder import LOG_FILE, user_of

FOLDER = "shared"
"""In the cache: a folder for each file, by its checksum."""
GROUP = "cbrcore.plugins"
TRACES = (LOG_FILE,)
"""What whoever looks at a run may leave in its folder."""
CHUNK = 1 << 20


def unpacked(file: Path) -> Path:
    """The folder of the run in FILE.cbr, which is unpacked once; what others changed there since is put right.

    Raises:
        CbrError: it is not there, damaged or not what `cbr export` wrote, or needs a plugin that is not here. The
            file and the member are named.
    """
    if not file.is_file():
        raise CbrError(f"{file}: no such file", hint="make one: cbr export RUN FILE.cbr")
    digest = sha256_of(file)
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = checked_manifest(archive, file)
            refuse_missing_plugins(manifest, file)
            folder = cache_dir() / FOLDER / digest[:24] / manifest.name
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent.with_suffix(".lock")):  # others may unpack the same file
                if not (user_of(folder) or is_intact(folder, manifest)):
                    _unpack(archive, manifest, file, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise CbrError(f"{file}: not a shared run ({error})", hint=MAKE_ANEW) from error
    return folder


# -- what is in the file -----------------------------------------------------------------------------------------


def checked_manifest(archive: zipfile.ZipFile, file: Path) -> Manifest:
    """The manifest, when the names, kinds and sizes of all members are as it says.

    Raises:
        CbrError: one is not.
    """
    entries = archive.infolist()
    for entry in entries:
        if wrong := _fault_of(entry):
            raise CbrError(f"{file}: {entry.filename!r} {wrong}", hint=MAKE_ANEW)
    names = [entry.filename for entry in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CbrError(f"{file}: {twice[0]!r} is in it twice", hint=MAKE_ANEW)
    if MANIFEST_FILE not in names:
        told = f"{file}: {MANIFEST_FILE} is missing: this is no shared run"
        raise CbrError(told, hint="make one: cbr export RUN FILE.cbr")
    manifest = read_manifest(archive.read(MANIFEST_FILE), file)
    told_sizes = {name: member.bytes for name, member in manifest.members.items()}
    found_sizes = {entry.filename: entry.file_size for entry in entries if entry.filename != MANIFEST_FILE}
    for name in sorted(told_sizes.keys() ^ found_sizes.keys()):
        what = "is missing" if name in told_sizes else f"is not in {MANIFEST_FILE}"
        raise CbrError(f"{file}: {name!r} {what}", hint=MAKE_ANEW)
    for name, size in found_sizes.items():
        if size != told_sizes[name]:
            told = f"{file}: {name!r} has {size} bytes instead of {told_sizes[name]}"
            raise CbrError(told, hint=MAKE_ANEW)
    return manifest


def _fault_of(entry: zipfile.ZipInfo) -> str:
    """What is wrong with a member before it is read; empty if nothing is."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    if not NAME.fullmatch(name):
        return "is no name of a file in a run's folder: it would be written elsewhere"
    if kind not in (0, stat.S_IFREG):
        return "is a link or a device, no file"
    if not name.endswith(KINDS):
        return f"is no file of a shared run: it may hold {', '.join(KINDS)}, and nothing that could run code"
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        return "is compressed or encrypted, as cbr export never writes it"
    if entry.file_size > (most := most_bytes(name)):
        return f"is too large: {entry.file_size:,} bytes, at most {most:,}"
    return ""


def refuse_missing_plugins(manifest: Manifest, file: Path) -> None:
    """CbrError if a plugin that the run needs is not installed. Loose files are asked for with the recipe."""
    installed = {entry.name for entry in metadata.entry_points(group=GROUP)}
    if missing := [name for name in manifest.plugins if name not in installed]:
        told = [f"{name} ({manifest.plugins[name]})" for name in missing]
        wanted = sorted({manifest.plugins[name].split(" ")[0] for name in missing})
        hint = f"install what it comes from: pip install {' '.join(wanted)}"
        raise CbrError(f"{file}: it needs plugins that are not installed: {', '.join(told)}", hint=hint)


# -- unpacking ---------------------------------------------------------------------------------------------------


def is_intact(folder: Path, manifest: Manifest) -> bool:
    """Whether the folder holds the members as the manifest has them, and nothing else that is read."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    if paths.keys() - {*TRACES} != manifest.members.keys():
        return False
    return all(
        paths[name].stat().st_size == member.bytes and sha256_of(paths[name]) == member.sha256
        for name, member in manifest.members.items()
    )


def _unpack(archive: zipfile.ZipFile, manifest: Manifest, file: Path, folder: Path) -> None:
    """Unpack into a folder beside it, which takes its place when everything is right."""
    needed = sum(member.bytes for member in manifest.members.values())
    if needed >> 20 > (free := free_mebibytes(str(folder))):
        told = f"{file} needs {needed >> 20} MiB in {folder.parent}, where {free} are free"
        raise CbrError(told, hint="make room there, or set CBR_CACHE to another folder")
    fresh, gone = (folder.with_name(f".{what}.{os.getpid()}.tmp") for what in ("fresh", "gone"))
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        for name, member in manifest.members.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source:
                _copy(source, path, member.sha256, f"{file}: {name!r}")
            _refuse_content(path, f"{file}: {name!r}")
        if folder.exists():
            folder.rename(gone)
        fresh.rename(folder)
    finally:
        for path in (fresh, gone):
            shutil.rmtree(path, ignore_errors=True)


def _copy(source: IO[bytes], to: Path, sha256: str, told: str) -> None:
    digest = hashlib.sha256()
    with to.open("wb") as target:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            target.write(chunk)
    if digest.hexdigest() != sha256:
        raise CbrError(f"{told} is not what was written (its checksum is another)", hint=MAKE_ANEW)


def _refuse_content(path: Path, told: str) -> None:
    """CbrError if the file is not what its name says, as a pickle is under any name."""
    try:
        if path.suffix == ".safetensors":
            _read_header(path)
        elif path.suffix == ".json":
            json.loads(path.read_bytes().decode())
        else:
            path.read_bytes().decode()
    except (ValueError, RecursionError) as error:
        raise CbrError(f"{told} holds no {path.suffix[1:]} ({error})", hint=MAKE_ANEW) from error


def _read_header(path: Path) -> None:
    """ValueError if it is no safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np"):
            pass
    except SafetensorError as error:
        raise ValueError(str(error)) from error
