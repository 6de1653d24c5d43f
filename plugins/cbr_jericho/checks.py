"""Whether Jericho's story files, its engine and the tagger are here and work, for ``cbr doctor``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from cbr_jericho.config import JerichoConfig
from cbrcore import Build, Finding, GameError, RunFailed
from cbrcore.interfaces import Health


def games(*, quick: bool) -> Iterator[Finding]:
    """Which of the paper's games are here."""
    from cbr_jericho.stories import paper_inventory

    inventory = paper_inventory()
    present = sum(game.status == "present" for game in inventory)
    mend = "" if present == len(inventory) else "cbr games add PATH, or cbr games fetch"
    status: Health = "absent" if mend else "ok"
    yield Finding("games", "Jericho", status, f"{present} of {len(inventory)} games", mend)
    for game in inventory:
        if game.status == "wrong":
            yield Finding("games", game.name, "problem", f"{game.path}: {game.problem}", "cbr games add PATH")


def tagger(*, quick: bool) -> Iterator[Finding]:
    """Whether there is a spaCy model, which the setting `tagger: spacy` needs."""
    from cbr_jericho.tagging import installed_model

    try:
        yield Finding("models", "spaCy model", "ok", installed_model())
    except GameError as error:
        yield Finding("models", "spaCy model", "absent", error.message, error.hint or "")


def engine(*, quick: bool) -> Iterator[Finding]:
    """A step of the engine on the generated story."""
    if not quick:
        valid = engine_step()
        said = f"one step of the generated story; {valid} valid actions"
        yield Finding("self-test", "Jericho's engine", "ok", said)


def engine_step() -> int:
    """Start the engine on the generated story and take one step; how many actions were valid.

    Raises:
        RunFailed: the engine ended the episode.
        GameError: the story cannot be made.
    """
    from cbr_jericho.environment import JerichoEnvironment

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
