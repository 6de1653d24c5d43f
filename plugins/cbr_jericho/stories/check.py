"""Story files are checked in Python before native code sees them: the interpreter ends the whole process on a
damaged file, and plays an unknown one with a score of 0 for ever.

A story is what its checksum says it is; names and suffixes decide nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cbr_isolate.files import fault_of
from cbr_jericho.stories.titles import titles_by_md5, titles_by_name
from cbrcore.errors import GameError

LENGTH_UNIT = {3: 2, 4: 4, 5: 4, 8: 8}
"""Z-machine versions that Jericho plays -> the unit in which a header gives the story's length, in bytes."""

HEADER_BYTES = 64
MAX_STORY_BYTES = 1 << 20
"""Twice what a version-8 story can address; nothing larger is read."""

GET_AGAIN = "Get it again: type cbr games fetch, or cbr games add PATH with a sound copy."
GET_STORY = "Name a story file (.z3, .z4, .z5, .z8). To see which are there, type: cbr games list"


@dataclass(frozen=True)
class Story:
    """A story file that has been checked.

    Attributes:
        name: Jericho's name of the title; of an unknown or generated story, the file's name without suffix.
        path: where it is.
        md5: of its content; what states and caches of this game are filed under.
        version: of the Z-machine, from the content.
        generated: whether this project made it with TextWorld.
        templates: its action templates, with "{}" for each entity; empty where Jericho has its own list.
    """

    name: str
    path: Path
    md5: str
    version: int
    generated: bool = False
    templates: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether it can be searched for valid actions, and has a score."""
        return self.generated or self.md5 in titles_by_md5()


class Fault(NamedTuple):
    """What is wrong with a file, as the end of a sentence, and what to type."""

    what: str
    hint: str


def check_story_file(path: Path | str, *, allow_unknown: bool = False) -> Story:
    """The story that `path` holds.

    Args:
        path: a file of any name.
        allow_unknown: accept a sound story that Jericho does not know. It then reads neither score nor moves.

    Raises:
        GameError: it cannot be read, is not a whole story file, or is not one that Jericho knows.
    """
    path = Path(path)
    content = read_story(path)
    md5 = story_md5(content)
    title = titles_by_md5().get(md5)
    if title is not None:
        return Story(title.name, path, md5, content[0])
    fault = story_fault(content) or (None if allow_unknown else unknown_story(path.name, md5))
    if fault is not None:
        raise GameError(f"{path} {fault.what}", hint=fault.hint)
    return Story(path.stem, path, md5, content[0])


def read_story(path: Path) -> bytes:
    """The bytes of a regular file of at most `MAX_STORY_BYTES`; GameError says why it cannot be read."""
    if fault := fault_of(path):
        hint = f"Type: chmod u+r '{path}'" if fault == "permission denied" else GET_STORY
        raise GameError(f"{path}: {fault}", hint=hint)
    try:
        size = path.stat().st_size
        if size > MAX_STORY_BYTES:
            raise GameError(f"{path} has {size:,} bytes: too large for a story file", hint=GET_STORY)
        return path.read_bytes()
    except OSError as error:
        raise GameError(f"{path}: {error.strerror}", hint=GET_STORY) from error


def story_md5(content: bytes) -> str:
    """What Jericho tells titles by."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def story_fault(content: bytes) -> Fault | None:
    """Why `content` is not a whole story that Jericho can run; None if it is."""
    return next(_faults(content), None)


def unknown_story(name: str, md5: str) -> Fault:
    """The refusal of a sound story that Jericho does not know; `name` is its file's."""
    namesake = next((title for title in titles_by_name().values() if title.file == name), None)
    other = f" (its name is that of {namesake.name!r}, which has the MD5 {namesake.md5})" if namesake else ""
    known = ", ".join(sorted(titles_by_name()))
    return Fault(
        f"has the MD5 {md5}, which Jericho does not know{other}: it would score 0 for ever",
        f"Jericho knows: {known}.\n  Type cbr games fetch to get these;"
        " or set `allow_unknown_rom: true` to play it as text only, without scores.",
    )


def _faults(content: bytes) -> Iterator[Fault]:
    """What is wrong, in the order in which it can be told."""
    if not content:
        yield Fault("is empty", GET_AGAIN)
        return
    yield from _other_formats(content)
    if content[0] not in LENGTH_UNIT:
        versions = ", ".join(map(str, LENGTH_UNIT))
        yield Fault(f"is not a Z-machine story of version {versions}: its first byte is {content[0]}", GET_STORY)
    elif len(content) < HEADER_BYTES:
        yield Fault(f"is cut short: {len(content)} bytes, less than a header", GET_AGAIN)
    else:
        yield from _length_and_checksum(content)


def _other_formats(content: bytes) -> Iterator[Fault]:
    """Files of other kinds that bear a story's name."""
    start = content[:HEADER_BYTES].lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        yield Fault("is a Git LFS pointer, not the story itself", "Type git lfs pull in its folder.")
    elif start.startswith(b"<"):
        yield Fault("is an HTML or XML page, not a story file", GET_AGAIN)
    elif start.startswith(b"form") and content[8:12] == b"IFRS":
        yield Fault("is a blorb container", "Unpack it first: take the story (ZCOD) out with a blorb tool.")
    elif start.startswith(b"pk\x03\x04"):
        yield Fault("is a zip archive", "Unpack it first: type cbr games add PATH.")
    elif start.startswith(b"glul"):
        yield Fault("is a Glulx story; Jericho plays Z-machine stories only", GET_STORY)
    elif content[0] == 6:
        yield Fault("is a version-6 (graphical) story, which Jericho cannot play", GET_STORY)


def _length_and_checksum(content: bytes) -> Iterator[Fault]:
    """Early stories leave both fields 0: then there is nothing to compare with."""
    length = int.from_bytes(content[0x1A:0x1C], "big") * LENGTH_UNIT[content[0]]
    checksum = int.from_bytes(content[0x1C:0x1E], "big")
    if length > len(content):
        yield Fault(f"is cut short: {len(content):,} bytes of {length:,}", GET_AGAIN)
    elif length and checksum and sum(content[HEADER_BYTES:length]) % 0x10000 != checksum:
        yield Fault("is damaged: the checksum in its header does not fit its content", GET_AGAIN)
