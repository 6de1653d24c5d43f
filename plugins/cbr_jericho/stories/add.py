"""Take story files into the user's games folder: from single files, folders and zip archives."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cbr_jericho.stories.check import (
    LENGTH_UNIT,
    MAX_STORY_BYTES,
    Fault,
    Story,
    read_story,
    story_fault,
    story_md5,
    unknown_story,
)
from cbr_jericho.stories.find import user_games_folder
from cbr_jericho.stories.titles import Title, titles_by_md5, titles_by_name
from cbrcore.errors import GameError

MAX_FILES = 20_000
"""Files looked at in one folder or archive."""

UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError)
"""What Python raises on a damaged, encrypted or exotic archive."""


@dataclass
class AddReport:
    """What became of the files that were offered.

    Attributes:
        added: stories that are new in the games folder.
        present: stories that were there already.
        refused: one message for each file or archive that gave nothing though it should have.
        others: how many files of folders and archives were passed over, because Jericho does not know them.
    """

    added: list[Story] = field(default_factory=list)
    present: list[Story] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    others: int = 0


def add_stories(paths: Iterable[Path | str], *, folder: Path | None = None) -> AddReport:
    """Copy every supported story found under `paths` into `folder`, under its usual file name.

    Stories are told by their checksum, and each is put in place in one move; nothing else of an archive is ever
    written. A path that gives nothing is named in `refused`; the others are added all the same.

    Args:
        paths: story files, folders (searched with their sub-folders) and zip archives.
        folder: None: `user_games_folder()`.

    Raises:
        GameError: `folder` cannot be written to.
    """
    report = AddReport()
    found: dict[Title, bytes] = {}
    for path in paths:
        try:
            for title, content in _stories_of(Path(path).expanduser(), report):
                found.setdefault(title, content)
        except GameError as error:
            report.refused.append(str(error))
    for title, content in found.items():
        _store(title, content, folder or user_games_folder(), report)
    return report


def _stories_of(path: Path, report: AddReport) -> Iterator[tuple[Title, bytes]]:
    """The supported stories that `path` holds; GameError if there is none."""
    if os.path.isdir(path):
        yield from _supported(path, _files_of(path), report)
    elif _is_zip(path):
        yield from _supported(path, _members_of(path), report)
    else:
        content = read_story(path)
        title = titles_by_md5().get(story_md5(content))
        if title is None:
            fault = _fault(path.name, content)
            raise GameError(f"{path} {fault.what}", hint=fault.hint)
        yield title, content


def _supported(
    source: Path, files: Iterator[tuple[str, bytes | None]], report: AddReport
) -> Iterator[tuple[Title, bytes]]:
    """The supported stories among `files`; a title that is there in name only is refused."""
    found: set[str] = set()
    wrong: dict[str, str] = {}
    for name, content in files:
        title = None if content is None else titles_by_md5().get(story_md5(content))
        if title is not None and content is not None:
            found.add(title.file)
            yield title, content
        elif content is not None and _is_titles_file(name):
            wrong[Path(name).name] = f"{source}: {name} {_fault(Path(name).name, content).what}"
        else:
            report.others += 1
    report.refused += [problem for file, problem in wrong.items() if file not in found]
    if not found and not wrong:
        raise GameError(f"{source} holds no story that Jericho knows", hint="Name the one with the games.")


def _files_of(folder: Path) -> Iterator[tuple[str, bytes | None]]:
    """(name, content) of the files in `folder` and below; the content is None where it cannot be a story."""
    for count, path in enumerate(_walk(folder)):
        if count == MAX_FILES:
            raise GameError(f"{folder} holds more than {MAX_FILES:,} files", hint="Name the one with the games.")
        name = str(path.relative_to(folder))
        try:
            if not os.path.isfile(path):
                continue
            with path.open("rb") as file:
                yield name, _read(name, path.stat().st_size, file)
        except OSError:
            yield name, None


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(root, name) for name in sorted(names))


def _members_of(archive: Path) -> Iterator[tuple[str, bytes | None]]:
    """(name, content) of the members of a zip; the content is None where it cannot be a story."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            if len(members) > MAX_FILES:
                raise GameError(f"{archive} holds more than {MAX_FILES:,} files", hint="Unpack it first.")
            for member in members:
                with opened.open(member) as file:
                    yield member.filename, _read(member.filename, member.file_size, file)
    except UNREADABLE as error:
        raise GameError(
            f"{archive} cannot be unpacked: {error}", hint="Get it again, or unpack it and add the folder."
        ) from error


def _read(name: str, size: int, file: IO[bytes]) -> bytes | None:
    """What a story of this name may hold: no more than a story's size, whatever an archive says of itself."""
    if size > MAX_STORY_BYTES:
        return None
    start = file.read(1)
    if not _is_titles_file(name) and (not start or start[0] not in LENGTH_UNIT):
        return None
    return start + file.read(MAX_STORY_BYTES)


def _is_titles_file(name: str) -> bool:
    return Path(name).name in {title.file for title in titles_by_name().values()}


def _fault(name: str, content: bytes) -> Fault:
    return story_fault(content) or unknown_story(name, story_md5(content))


def _is_zip(path: Path) -> bool:
    if not os.path.isfile(path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(2) == b"PK"
    except OSError:
        return False


def _store(title: Title, content: bytes, folder: Path, report: AddReport) -> None:
    """Put a story in place, unless it is there."""
    path = folder / title.file
    story = Story(title.name, path, title.md5, content[0])
    if _holds(path, title.md5):
        report.present.append(story)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_atomically(path, content)
    except OSError as error:
        raise GameError(
            f"cannot write to the games folder {folder}: {error.strerror}",
            hint="Free some space there, or set XDG_DATA_HOME to another folder.",
        ) from error
    report.added.append(story)


def _holds(path: Path, md5: str) -> bool:
    try:
        return story_md5(read_story(path)) == md5
    except GameError:
        return False


def _write_atomically(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".adding-", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
