"""Fill the cache of valid actions along a game's walkthrough, and see how much of the walkthrough they cover."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbrcore.errors import GameError
from cbrcore.interfaces import Build
from cbrcore.types import StepResult


@dataclass(frozen=True)
class WarmReport:
    """What `warm` did.

    Attributes:
        game: its name.
        states: states of the walkthrough, the first included.
        searched: of these, how many were not in the cache before.
        rewarded: commands of the walkthrough that earn points.
        covered: of these, how many have a valid action that earns as much at once. The rest is out of reach for
            an agent that chooses among valid actions; a missing one is no error.
        seconds: how long it took.
    """

    game: str
    states: int
    searched: int
    rewarded: int
    covered: int
    seconds: float


Progress = Callable[[int, int], None]
"""Told (states so far, states in all)."""


def warm_cache(
    game: str, cache_dir: Path, *, steps: int | None = None, progress: Progress | None = None
) -> WarmReport:
    """`warm` for a game with default settings.

    Args:
        game: a title, found in the usual folders.
        cache_dir: the cache folder of the runs that shall profit.

    Raises:
        GameError: the game is not there, or has no walkthrough.
    """
    with closing(JerichoEnvironment(JerichoConfig(game=game), Build(cache_dir=cache_dir))) as environment:
        return warm(environment, *environment.games("train"), steps=steps, progress=progress)


def warm(
    environment: JerichoEnvironment,
    game: str,
    *,
    steps: int | None = None,
    progress: Progress | None = None,
) -> WarmReport:
    """Play the walkthrough once with the search for valid actions at each step.

    Args:
        environment: with `seed: walkthrough`; the walkthrough fits no other.
        steps: play so many commands only; an agent's episode has 100.

    Raises:
        GameError: the game has no walkthrough.
        RunFailed: the engine fails again and again.
    """
    commands = environment.walkthrough(game)[:steps]
    if not commands:
        raise GameError(f"{game} has no walkthrough")
    start, before = perf_counter(), environment.figures()["counts"]["searched"]
    states = rewarded = covered = best = 0
    for states, played in enumerate(environment.replay(game, commands, effort="actions"), 1):
        if isinstance(played, StepResult):
            rewarded += played.reward > 0
            covered += 0 < played.reward <= best
        if not isinstance(played, StepResult) or played.ending is None:
            best = environment.best_gain()
        if progress is not None:
            progress(states, len(commands) + 1)
    searched = environment.figures()["counts"]["searched"] - before
    return WarmReport(game, states, searched, rewarded, covered, perf_counter() - start)
