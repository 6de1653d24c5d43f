"""Whether the published games are here, for ``cbr doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cbrcore import Build, CbrError, Finding
from cbrcore.interfaces import Health

LEVELS = ("easy", "medium", "hard")
GAMES = "export CBR_GAMES=/path/to/games (it holds twc/ and jericho/)"


def games(*, quick: bool) -> Iterator[Finding]:
    """CBR_GAMES, and the published games of each level. Without them there are generated ones."""
    shared = os.environ.get("CBR_GAMES")
    if not shared:
        yield Finding("games", "CBR_GAMES", "absent", "not set: no published TWC games", GAMES)
        return
    folder = Path(shared).expanduser()
    if not folder.is_dir():
        yield Finding("games", "CBR_GAMES", "problem", f"{shared} is not a folder", GAMES)
        return
    yield Finding("games", "CBR_GAMES", "ok", shared)
    for level in LEVELS:
        yield _level(level, folder)


def _level(level: str, folder: Path) -> Finding:
    from cbr_twc.config import TwcConfig
    from cbr_twc.environment import TwcEnvironment

    environment = TwcEnvironment(TwcConfig(level=level), Build())  # type: ignore[arg-type]
    try:
        counts = [f"{len(environment.games(split))} {split}" for split in environment.splits()]
    except CbrError as error:
        status: Health = "problem" if (folder / "twc" / level).exists() else "absent"
        return Finding("games", f"TWC {level}", status, error.message, error.hint or GAMES)
    return Finding("games", f"TWC {level}", "ok", ", ".join(counts))
