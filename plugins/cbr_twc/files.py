"""Finding games, and checking their files in Python before native code sees them: a damaged story file would end
the process without an exception."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cbr_isolate.files import fault_of, named_path
from cbr_twc.config import TwcConfig
from cbr_twc.reading import load_game, read_json
from cbrcore.errors import GameError

log = logging.getLogger(__name__)

FOLDERS = {"train": "train", "in": "valid", "out": "test"}
"""split -> folder of the published benchmark; `valid` is its in-distribution test set."""

ACCEPTED = "NAME.z8 with NAME.json beside it, or NAME.json alone (it is compiled; an .ulx beside it is not needed)"
ELSEWHERE = "Set CBR_GAMES to the folder that holds twc/, or `games_dir` to the one that holds easy/, medium/ and\
 hard/; or play generated games with `source: generate`."

PUBLISHED = 5
"""Games per split of the benchmark."""

HEADER_SIZE = 64
LENGTH_UNIT = 8
"""A version-8 story gives its length in units of 8 bytes."""


@dataclass(frozen=True)
class GameFiles:
    """A game's description and, if it was found compiled, its story file; both are checked.

    `made_here`: the game was generated, and its story file holds the date.
    """

    json: Path
    z8: Path | None
    made_here: bool = False

    @property
    def name(self) -> str:
        return self.json.stem

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.json.read_bytes()).hexdigest()

    @cached_property
    def content(self) -> str:
        """Equal for games that differ in name and metadata only."""
        data = read_json(self.json)
        played = {key: data.get(key) for key in ("world", "quests", "infos")}
        return hashlib.sha256(json.dumps(played, sort_keys=True).encode()).hexdigest()


def benchmark_folder(config: TwcConfig, recipe_dir: Path) -> Path:
    """Where the published games are.

    Raises:
        GameError: neither `games_dir` nor CBR_GAMES says so, or there is no such folder.
    """
    if config.games_dir is not None:
        folder = named_path(config.games_dir, recipe_dir)
        origin = f"`games_dir: {config.games_dir}`"
    elif os.environ.get("CBR_GAMES"):
        folder = Path(os.environ["CBR_GAMES"]).expanduser() / "twc"
        origin = f"CBR_GAMES={os.environ['CBR_GAMES']}"
    else:
        raise GameError("where are the TWC games? Neither `games_dir` nor CBR_GAMES is set.", hint=ELSEWHERE)
    if fault := fault_of(folder, "folder"):
        raise GameError(f"{folder}: {fault} (where {origin} says that the TWC games are)", hint=ELSEWHERE)
    return folder


def find_games(folder: Path) -> list[GameFiles]:
    """The games of one split, by name, checked.

    Raises:
        GameError: there is none, a file is damaged or lacks its counterpart, or a game is there twice.
    """
    entries = _list_folder(folder)
    stems: dict[str, set[str]] = {}
    for entry in entries:
        if entry.suffix in (".z8", ".json", ".ulx"):
            stems.setdefault(entry.stem, set()).add(entry.suffix)
    if not stems:
        found = ", ".join(entry.name for entry in entries[:5]) or "nothing"
        raise GameError(f"no games in {folder}; found: {found}. A game is {ACCEPTED}.", hint=ELSEWHERE)
    games = [_game(folder / stem, suffixes) for stem, suffixes in sorted(stems.items())]
    refuse_doubles(games)
    if len(games) != PUBLISHED:
        log.warning("%s holds %d games; each split of the benchmark has %d", folder, len(games), PUBLISHED)
    return games


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        parent = next(parent for parent in folder.parents if parent.is_dir())
        found = ", ".join(sorted(entry.name for entry in parent.iterdir())) or "nothing"
        raise GameError(
            f"cannot read the folder {folder} ({error.strerror}); in {parent} there is: {found}", hint=ELSEWHERE
        ) from error


def _game(base: Path, suffixes: set[str]) -> GameFiles:
    sidecar = base.parent / f"{base.name}.json"
    story = base.parent / f"{base.name}.z8"
    if ".json" not in suffixes:
        found = base.parent / f"{base.name}{min(suffixes)}"
        raise GameError(
            f"{found} has no {sidecar.name} beside it: nothing is known of its rooms, goals and commands",
            hint=f"Copy {sidecar.name} as well. A game is {ACCEPTED}.",
        )
    check_readable(sidecar)
    load_game(sidecar)
    if ".z8" in suffixes:
        check_story(story)
        return GameFiles(sidecar, story)
    return GameFiles(sidecar, None)


def refuse_doubles(games: list[GameFiles]) -> None:
    """GameError if two games of a split differ in name and metadata at most."""
    seen: dict[str, Path] = {}
    for game in games:
        other = seen.setdefault(game.content, game.json)
        if other is not game.json:
            known = other.name if other.parent == game.json.parent else other
            raise GameError(
                f"{game.json} is the same game as {known}: it would count twice",
                hint="Move one of them out of the folder.",
            )


def check_readable(path: Path) -> None:
    """GameError unless `path` is a regular file that we may read."""
    if fault := fault_of(path):
        hint = f"chmod u+r '{path}'" if fault == "permission denied" else f"A game is {ACCEPTED}."
        raise GameError(f"{path}: {fault}", hint=hint)


def check_story(path: Path) -> None:
    """GameError unless `path` holds a whole version-8 story file."""
    check_readable(path)
    check_content(path, path.read_bytes())


def check_content(path: Path, content: bytes) -> None:
    """GameError unless `content`, which was read from `path`, is a whole version-8 story."""
    fault = next(_faults(content), None)
    if fault is not None:
        raise GameError(
            f"{path} {fault}", hint="Download it again, or delete it: it is compiled from its .json when needed."
        )


def _faults(content: bytes) -> Iterator[str]:
    """What is wrong with a story file, in the order in which it can be told."""
    start = content[:HEADER_SIZE].lstrip()
    if not content:
        yield "is empty"
    elif start.startswith(b"version https://git-lfs"):
        yield "is a Git LFS pointer, not the file itself (git lfs pull)"
    elif start.startswith(b"<"):
        yield "is an HTML or XML page, not a story file"
    elif start.startswith((b"FORM", b"Glul")):
        yield "is a blorb container (unpack it first)" if start.startswith(b"FORM") else "is a Glulx story"
    elif content[0] != 8:
        yield f"is not a Z-machine story of version 8 (its first byte is {content[0]})"
    elif len(content) < HEADER_SIZE:
        yield f"is cut short: {len(content)} bytes, less than a header"
    else:
        yield from _length_and_checksum(content)


def _length_and_checksum(content: bytes) -> Iterator[str]:
    length = int.from_bytes(content[0x1A:0x1C], "big") * LENGTH_UNIT
    if not HEADER_SIZE < length <= len(content):
        yield f"is cut short: {len(content)} bytes of {length}"
    elif sum(content[HEADER_SIZE:length]) % 0x10000 != int.from_bytes(content[0x1C:0x1E], "big"):
        yield "is damaged: its checksum does not fit its content"
