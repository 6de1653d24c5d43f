"""The episode loop. It knows environments, actors and observers; it knows no algorithm.

Several games can be played at the same time, each in an environment of its own. They go in step: all players
decide, all engines work, all results are taken in, in the order of the seats: no engine's speed matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cbrcore.interfaces import ConcurrentEnvironment, Environment, Stopwatch
from cbrcore.types import Decision, Ending, Episode, Observation, StepResult, Transition


class Actor(Protocol):
    """Whoever plays: decides, and is told what came of it."""

    def begin(self, game: str) -> None: ...
    def decide(self, observation: Observation) -> tuple[Decision, Any]: ...
    def observe(self, decision: Decision, trace: Any, result: StepResult) -> None: ...


class Observer(Protocol):
    """Is told what happens, as `cbrcore.interfaces.Learner` is."""

    def took_step(self, seat: int, transition: Transition) -> None: ...
    def round_of_steps_done(self) -> None: ...


DecideTogether = Callable[[Sequence[Any], Sequence[Observation]], Sequence[tuple[Decision, Any]]]
"""(actors, their observations) -> what `Actor.decide` returns, for each."""


@dataclass(frozen=True)
class Seat:
    """Where one game is played, and by whom."""

    environment: Environment
    actor: Actor


def decide_in_turn(actors: Sequence[Actor], observations: Sequence[Observation]) -> list[tuple[Decision, Any]]:
    """Each actor is asked alone."""
    return [actor.decide(seen) for actor, seen in zip(actors, observations, strict=True)]


def play_episode(
    environment: Environment, actor: Actor, game: str, seed: int, *, clock: Stopwatch | None = None
) -> Episode:
    """Play one game from reset to its ending; see `play_together`."""
    return play_together([Seat(environment, actor)], [(game, seed)], clock=clock)[0]


def play_together(
    seats: Sequence[Seat],
    plays: Sequence[tuple[str, int]],
    *,
    decide: DecideTogether = decide_in_turn,
    observer: Observer | None = None,
    clock: Stopwatch | None = None,
) -> list[Episode]:
    """Play one game in each seat from reset to its ending; a game that ends early waits for the others.

    Args:
        plays: (game, seed) of each seat; there may be fewer than seats.
        decide: decides for several actors at once.
    """
    clock = clock or Stopwatch()
    begun = [GamePlay(seat, game, seed, clock) for seat, (game, seed) in zip(seats, plays, strict=False)]
    while playing := [(number, play) for number, play in enumerate(begun) if play.episode.ending is None]:
        choices = decide([play.actor for _, play in playing], [play.observation for _, play in playing])
        with clock.part("environment"):
            for (_, play), (decision, _) in zip(playing, choices, strict=True):
                play.send(decision)
        for (number, play), (decision, trace) in zip(playing, choices, strict=True):
            transition = play.receive(decision, trace)
            if observer is not None:
                observer.took_step(number, transition)
        if observer is not None:
            observer.round_of_steps_done()
    return [play.episode for play in begun]


class GamePlay:
    """One game play in a seat, which environment and actor serve alone.

    Attributes:
        episode: what was played so far.
        observation: what the actor sees now; after the ending, what it saw last.
    """

    def __init__(self, seat: Seat, game: str, seed: int, clock: Stopwatch | None = None) -> None:
        self.actor, self._environment = seat.actor, seat.environment
        self.game, self.seed = game, seed
        self._concurrent = seat.environment if isinstance(seat.environment, ConcurrentEnvironment) else None
        self._clock = clock or Stopwatch()
        self.actor.begin(game)
        with self._clock.part("environment"):
            self.observation = self._environment.reset(game, seed)
        self.episode = Episode(game, seed, opening=self.observation)

    def send(self, decision: Decision) -> None:
        """Let the engine begin to work, if it can do so by itself."""
        if self._concurrent is not None:
            self._concurrent.send(decision.action)

    def receive(self, decision: Decision, trace: Any) -> Transition:
        """What came of the decision, told to the actor."""
        with self._clock.part("environment"):
            concurrent = self._concurrent
            result = concurrent.receive() if concurrent else self._environment.step(decision.action)
        if result.ending is None and not result.observation.admissible:
            result = replace(result, ending=Ending.NO_ACTIONS)
        self.actor.observe(decision, trace, result)
        transition = Transition(self.observation, decision, result, trace)
        self.episode.transitions.append(transition)
        self.observation = result.observation
        return transition
