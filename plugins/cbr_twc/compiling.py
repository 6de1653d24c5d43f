"""Compile a game's .json to the .z8 that TextWorld plays, into the cache; the data folder is never written to."""

from __future__ import annotations

import logging
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from cbr_cache.sealed import is_whole, keep
from cbr_twc.files import GameFiles, check_story
from cbr_twc.generate.build import compile_game
from cbrcore.errors import GameError
from cbrcore.rng import undisturbed_randomness

log = logging.getLogger(__name__)


def textworld_version() -> str:
    """Version of the installed TextWorld, without importing it."""
    return version("textworld")


def story_file(game: GameFiles, cache_dir: Path) -> Path:
    """The game's .z8: the one beside its .json, else one compiled earlier, else one compiled now (about 6 s).

    Raises:
        GameError: it cannot be compiled.
    """
    if game.z8 is not None:
        return game.z8
    story = cache_dir / "twc" / f"{game.sha256[:24]}-textworld-{textworld_version()}.z8"
    identity = f"{game.sha256} textworld-{textworld_version()}"
    if not is_whole(story, identity):
        _compile(game, story, identity)
    return story


def _compile(game: GameFiles, story: Path, identity: str) -> None:
    """Compile in a folder of our own, then rename: two processes that do this at once do no harm."""
    log.info("compiling %s (once) ...", game.name)
    started = time.perf_counter()
    try:
        story.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="compile-", dir=story.parent) as folder:
            fresh = _run_compiler(game, Path(folder) / "game.z8")
            check_story(fresh)
            keep(fresh, story, identity)
    except OSError as error:
        raise GameError(
            f"cannot write the compiled game {story}: {error}",
            hint="Free some space there, or choose another cache folder.",
        ) from error
    log.info("compiled %s in %.1f s", game.name, time.perf_counter() - started)


def _run_compiler(game: GameFiles, target: Path) -> Path:
    with undisturbed_randomness():
        from textworld import Game
    try:
        return compile_game(Game.load(str(game.json)), target)
    except (GameError, KeyError, ValueError, AttributeError) as error:
        raise GameError(
            f"{game.json} cannot be compiled: {error}", hint="Put the .z8 that TextWorld wrote for it beside it."
        ) from error
