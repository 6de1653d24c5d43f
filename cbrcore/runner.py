"""The episode loop. It knows environments, an actor and observers; it knows no algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cbrcore.errors import RunFailed
from cbrcore.interfaces import Environment
from cbrcore.timing import Stopwatch
from cbrcore.types import Decision, Episode, Observation, StepResult, Transition


class Actor(Protocol):
    """Whoever plays: decides, and is told what came of it."""

    def begin(self, game: str) -> None: ...
    def decide(self, observation: Observation) -> tuple[Decision, Any]: ...
    def observe(self, decision: Decision, trace: Any, result: StepResult) -> None: ...


Observer = Callable[[Transition], None]
"""Called after every step."""


def play_episode(
    environment: Environment,
    actor: Actor,
    game: str,
    seed: int,
    *,
    observer: Observer | None = None,
    clock: Stopwatch | None = None,
) -> Episode:
    """Play one game from reset to its ending.

    Raises:
        RunFailed: the game offers no admissible action.
    """
    clock = clock or Stopwatch()
    episode = Episode(game, seed)
    actor.begin(game)
    with clock.part("environment"):
        observation = environment.reset(game, seed)
    while episode.ending is None:
        if not observation.admissible:
            raise RunFailed(f"{game}: no admissible action after {episode.steps} steps: {observation.text!r}")
        decision, trace = actor.decide(observation)
        with clock.part("environment"):
            result = environment.step(decision.action)
        actor.observe(decision, trace, result)
        transition = Transition(observation, decision, result, trace)
        episode.transitions.append(transition)
        if observer is not None:
            observer(transition)
        observation = result.observation
    return episode
