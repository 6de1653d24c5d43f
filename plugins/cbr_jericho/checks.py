"""Whether Jericho's story files, its engine and the tagger are here and work, for ``cbr doctor``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbr_jericho.interpreter import tuned_interpreter
from cbr_jericho.stories import paper_inventory
from cbr_jericho.tagging import installed_model
from cbrcore import Build, CbrError, Finding, GameError, RunFailed

REINSTALL = "pip install --force-reinstall cbr-textrl"


def games(*, quick: bool) -> Iterator[Finding]:
    """Which of the paper's games are here."""
    inventory = paper_inventory()
    present = sum(game.status == "present" for game in inventory)
    found = f"{present} of {len(inventory)} games"
    if present == len(inventory):
        yield Finding("games", "Jericho", "ok", found)
    else:
        yield Finding("games", "Jericho", "absent", found, "cbr games add PATH, or cbr games fetch")
    for game in inventory:
        if game.status == "wrong":
            yield Finding("games", game.name, "problem", f"{game.path}: {game.problem}", "cbr games add PATH")


def tagger(*, quick: bool) -> Iterator[Finding]:
    """Whether there is a spaCy model, which the setting `tagger: spacy` needs."""
    try:
        yield Finding("models", "spaCy model", "ok", installed_model())
    except GameError as error:
        yield Finding("models", "spaCy model", "absent", error.message, error.hint or REINSTALL)


def interpreter(*, quick: bool) -> Iterator[Finding]:
    """Whether the faster build of the interpreter was made."""
    if (path := tuned_interpreter()) is not None:
        yield Finding("games", "Jericho's interpreter", "ok", f"tuned: {path}")
    else:
        mend = "cbr games tune (searches are some 1.9 times as fast)"
        yield Finding("games", "Jericho's interpreter", "absent", "no tuned one", mend)


def engine(*, quick: bool) -> Iterator[Finding]:
    """A step of the engine on the generated story."""
    if quick:
        return
    try:
        found = f"one step of the generated story; {engine_step()} valid actions"
    except CbrError as error:
        yield Finding("self-test", "Jericho's engine", "broken", error.message, error.hint or REINSTALL)
    else:
        yield Finding("self-test", "Jericho's engine", "ok", found)


def engine_step() -> int:
    """Start the engine on the generated story and take one step; how many actions were valid.

    Raises:
        RunFailed: the engine ended the episode.
        GameError: the story cannot be made.
    """
    config = JerichoConfig(game="generated", step_timeout_s=5, valid_timeout_s=5, max_faults=1)
    with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
        environment = JerichoEnvironment(config, Build(cache_dir=Path(folder)))
        try:
            (game,) = environment.games("train")
            seen = environment.reset(game, 1)
            result = environment.step(seen.admissible[0])
        finally:
            environment.close()
    if result.ending is not None:
        raise RunFailed(f"the episode ended after one step: {result.ending}")
    return len(seen.admissible)
