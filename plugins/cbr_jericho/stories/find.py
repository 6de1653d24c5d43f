"""Where story files are looked for, and which of the paper's games are there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from cbr_cache.checksums import FileState, file_state
from cbr_isolate.files import fault_of
from cbr_jericho.stories.check import MAX_STORY_BYTES, Story, check_story_file, story_md5
from cbr_jericho.stories.titles import PAPER_GAMES, Title, titles_by_md5, titles_by_name
from cbrcore.errors import GameError, closest

HOW_TO_GET = "Type cbr games add PATH (a story file, a folder or a zip that you have), or cbr games fetch."


@dataclass(frozen=True)
class Entry:
    """One of the paper's games in the folders that are searched.

    `status`: "present"; "wrong" if a file of its name is there, but with other content (`problem` says what is
    wrong with it); or "missing".
    """

    name: str
    md5: str
    max_score: int
    status: Literal["present", "wrong", "missing"]
    path: Path | None = None
    problem: str = ""


def user_games_folder() -> Path:
    """Where ``cbr games add`` and ``fetch`` put story files: cbr/games/jericho/ in the user's data folder.

    It is laid out as the folder that CBR_GAMES names: jericho/ beside twc/.
    """
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base).expanduser() / "cbr" / "games" / "jericho"


def game_folders(rom_dir: Path | str | None = None) -> list[Path]:
    """The folders searched, in order: `rom_dir` alone if it is given, else CBR_GAMES/jericho, then the user's."""
    if rom_dir is not None:
        return [Path(rom_dir).expanduser()]
    shared = os.environ.get("CBR_GAMES")
    return [*([Path(shared).expanduser() / "jericho"] if shared else []), user_games_folder()]


def find_story(name: str, rom_dir: Path | str | None = None) -> Story:
    """The story of a title, wherever it is and whatever its file is called.

    Args:
        name: as Jericho calls it, e.g. "zork1"; any title that Jericho supports, not the paper's alone.
        rom_dir: look here instead of in the usual folders.

    Raises:
        GameError: there is no such title, or no folder holds it; says where it looked and what to type.
    """
    title = titles_by_name().get(name)
    if title is None:
        best = closest(name, PAPER_GAMES) or closest(name, titles_by_name())
        help_ = f"Did you mean {best!r}?" if best else f"The paper's games are: {', '.join(PAPER_GAMES)}."
        raise GameError(f"Jericho has no game {name!r}.", hint=help_)
    folders = game_folders(rom_dir)
    for folder in folders:
        found = stories_in(folder).get(name)
        if found is not None:
            return found
    raise GameError(_not_found(title, folders), hint=HOW_TO_GET)


def stories_in(folder: Path) -> dict[str, Story]:
    """Name -> story of every supported title in `folder` (not in its sub-folders); empty if it cannot be read."""
    found: dict[str, Story] = {}
    for path, md5, version in _identified(folder):
        title = titles_by_md5().get(md5)
        if title is not None and title.name not in found:
            found[title.name] = Story(title.name, path, md5, version)
    return found


def paper_inventory(rom_dir: Path | str | None = None) -> list[Entry]:
    """Which of the paper's 33 games are there."""
    folders = game_folders(rom_dir)
    present = {name: story for folder in reversed(folders) for name, story in stories_in(folder).items()}
    return [_entry(name, present.get(name), folders) for name in PAPER_GAMES]


def _entry(name: str, story: Story | None, folders: list[Path]) -> Entry:
    game = PAPER_GAMES[name]
    if story is not None:
        return Entry(name, game.md5, game.max_score, "present", story.path)
    path, problem = next(_namesakes(titles_by_name()[name], folders), (None, ""))
    return Entry(name, game.md5, game.max_score, "missing" if path is None else "wrong", path, problem)


def _namesakes(title: Title, folders: list[Path]) -> Iterator[tuple[Path, str]]:
    """Files that have the title's file name but not its content, and what is wrong with each."""
    for folder in folders:
        path = folder / title.file
        if os.path.lexists(path):
            try:
                check_story_file(path)
            except GameError as error:
                yield path, error.message


def _not_found(title: Title, folders: list[Path]) -> str:
    looked = "; ".join(f"{folder} ({_holds(folder)})" for folder in folders)
    problems = "".join(f"\n  {problem}" for _, problem in _namesakes(title, folders))
    return f"the story file of {title.name!r} (MD5 {title.md5}) is not here. Looked in: {looked}{problems}"


def _holds(folder: Path) -> str:
    return fault_of(folder, "folder") or f"{len(stories_in(folder))} of {len(titles_by_name())} supported games"


def _identified(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """(path, MD5, version) of each file of a story's size; what cannot be read is passed over."""
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return
    for path in paths:
        try:
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= MAX_STORY_BYTES:
                yield path, *_identity(path, file_state(path))
        except OSError:
            continue


@lru_cache(maxsize=4096)
def _identity(path: Path, state: FileState) -> tuple[str, int]:
    """MD5 and first byte. `state` tells the content that was read from a later one."""
    content = path.read_bytes()
    return story_md5(content), content[0]
