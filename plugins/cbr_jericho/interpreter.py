"""Which build of Jericho's interpreter plays: the one that pip installed, or a faster one of the same source."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from cbr_cache.sealed import is_whole
from cbr_jericho.stories import user_games_folder


def tuned_path() -> Path:
    """Where ``cbr games tune`` puts its build; another machine, C library or Jericho has another place."""
    build = f"{identity()}.so".replace(" ", "-")
    return user_games_folder().parents[1] / "interpreter" / build


def identity() -> str:
    """What a build is good for."""
    return f"jericho {version('jericho')} {platform.system()} {platform.machine()} {''.join(platform.libc_ver())}"


def tuned_interpreter() -> Path | None:
    """The faster build, if it was made and is whole; a warning if it was changed."""
    path = tuned_path()
    return path if is_whole(path, identity()) else None
