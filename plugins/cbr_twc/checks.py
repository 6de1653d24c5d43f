"""Whether the published games are here, for ``cbr doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbrcore import Build, CbrError, Finding

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
    for config in (TwcConfig(level="easy"), TwcConfig(level="medium"), TwcConfig(level="hard")):
        name, environment = f"TWC {config.level}", TwcEnvironment(config, Build())
        try:
            counts = [f"{len(environment.games(split))} {split}" for split in environment.splits()]
            yield Finding("games", name, "ok", ", ".join(counts))
        except CbrError as error:
            there = (folder / "twc" / config.level).exists()
            yield Finding("games", name, "problem" if there else "absent", error.message, error.hint or GAMES)
