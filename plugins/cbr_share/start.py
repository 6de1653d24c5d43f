"""A start from what another run has learned: its weights and its cases, in the place of a pretraining."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_share.config import StartConfig
from cbrcore.config import expand_path
from cbrcore.console import run_folder
from cbrcore.errors import RunFolderError
from cbrcore.interfaces import Build, KeepsState, Scene
from cbrcore.runs.files import sha256_of
from cbrcore.runs.folder import RESULTS_FILE, read_json

if TYPE_CHECKING:
    from torch import Tensor

    from cbrcore.cycle.reasoner import CaseBasedReasoner

log = logging.getLogger(__name__)

HINT = "start with its own recipe: cbr run --from {}, and --set what may be another"


class SharedStart:
    """The weights, the cases, and what reuse policy and environment know, of the latest checkpoint of another run.

    Everything else is the new run's own: counts begin at 0, and the learner (moments of its optimizers) and the
    random streams begin as in any run.
    """

    def __init__(self, config: StartConfig, build: Build) -> None:
        self.config = config

    def __repr__(self) -> str:
        return f"SharedStart(file={self.config.file!r})"

    def run(self, scene: Scene) -> Mapping[str, Any] | None:
        """Fill the player; what it started with, and the steps and plays that this cost. None without a file.

        Raises:
            CbrError: the file is not there, or damaged.
            RunFolderError: its weights or cases do not fit the recipe.
            Interrupted: the user stopped it.
        """
        from cbrcore.runs import newest_checkpoint
        from cbrcore.runs.checkpoint import load_checkpoint, read_state

        if self.config.file is None:
            return None
        source = expand_path(self.config.file, scene.directory)
        folder = run_folder(source)
        checkpoint = newest_checkpoint(folder)
        progress, tensors, _ = load_checkpoint(checkpoint, {})
        filled, fresh = fill_modules(scene.player, tensors, source)
        cases = fill_memories(scene.player, checkpoint, source, keys_fit=not fresh)
        played = same_games(scene, folder)
        known = fill_keepers(scene, read_state(checkpoint)[0].get("kept", {}), source, environment=played)
        scene.phase(f"started from {source.name}", 1)  # nothing can be wrong with it any more
        scene.advance()
        before = progress.pretraining
        return {
            "file": source.name,
            "sha256": sha256_of(source) if source.is_file() else None,
            "started": [*filled, *known],
            "fresh": fresh,
            "cases": cases,
            "steps": progress.env_steps + int(before.get("steps") or 0),
            "plays": progress.games_played + int(before.get("plays") or 0),
        }


def fill_modules(
    player: CaseBasedReasoner, tensors: Mapping[str, Tensor], source: Path
) -> tuple[list[str], list[str]]:
    """Load the weights of each module that the source has; (those that were filled, those that it has not).

    Raises:
        RunFolderError: weights have other shapes or names than the recipe's.
    """
    filled, fresh = [], []
    for name, module in player.modules().items():
        own = {key.removeprefix(f"{name}:"): value for key, value in tensors.items() if key.startswith(f"{name}:")}
        if not own and module.state_dict():
            fresh.append(name)
            log.info("%s has no %s: it begins untrained", source.name, name)
            continue
        try:
            module.load_state_dict(own)
        except RuntimeError as error:
            said = f"{source}: its weights do not fit the {name} of this recipe: {error}"
            raise RunFolderError(said, hint=HINT.format(source)) from error
        filled.append(name)
    return filled, fresh


def fill_memories(player: CaseBasedReasoner, checkpoint: Path, source: Path, *, keys_fit: bool) -> int | None:
    """Load the cases; how many there are then, None for an agent without a memory.

    With the encoders that made them the memories are as they were; else the cases are added as those of another
    run, with keys that are made anew, and what failed is left out.
    """
    retriever = player.retriever
    if retriever is None:
        return None
    held = {path.name for path in checkpoint.iterdir() if path.is_dir()}
    for name, store in retriever.memory.stores().items() if held else ():
        if name not in held:
            continue
        stored = retriever.memory.read(checkpoint / name)
        if keys_fit and stored.identity == retriever.identity:
            store.load(checkpoint / name)
        elif store is retriever.memory:
            retriever.adopt(stored)
        else:
            log.info("%s: the %s are left out: their keys were made by other encoders", source.name, name)
    return len(retriever.memory)


def fill_keepers(scene: Scene, kept: Mapping[str, Any], source: Path, *, environment: bool) -> list[str]:
    """Load what the reuse policy knows, and the `environment` if that is wanted; the names of those that know it.

    Raises:
        RunFolderError: it is not what this recipe's part knows.
    """
    parts: dict[str, object] = {"reuse_policy": scene.player.reuse_policy}
    parts |= {"environment": scene.environments[0]} if environment else {}
    known = {name: part for name, part in parts.items() if name in kept and isinstance(part, KeepsState)}
    for name, part in known.items():
        try:
            part.load_state(kept[name])
        except Exception as error:  # whatever a plugin's part makes of it
            said = f"{source}: what its {name} knows does not fit this recipe: {type(error).__name__}: {error}"
            raise RunFolderError(said, hint=HINT.format(source)) from error
    return list(known)


def same_games(scene: Scene, run: Path) -> bool:
    """Whether the scene is trained on the games that a finished run was trained on."""
    if not (run / RESULTS_FILE).is_file():
        return False
    environment = scene.environments[0]
    here = {game: dict(environment.game_info(game)) for game in environment.games("train")}
    return bool(read_json(run / RESULTS_FILE)["protocol"]["games"]["train"] == json.loads(json.dumps(here)))
