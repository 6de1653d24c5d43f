"""The episode loop. It knows environments, actors and observers; it knows no algorithm.

Several games can be played at the same time, each in an environment of its own. They go in step: all players
decide, all engines work, all results are taken in, in the order of the seats. So nothing depends on which engine
is the faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cbrcore.errors import CbrError, RunFailed
from cbrcore.interfaces import ConcurrentEnvironment, Environment, Stopwatch
from cbrcore.types import Action, Decision, Episode, Observation, StepResult, Transition


class Actor(Protocol):
    """Whoever plays: decides, and is told what came of it."""

    def begin(self, game: str) -> None: ...
    def decide(self, observation: Observation) -> tuple[Decision, Any]: ...
    def observe(self, decision: Decision, trace: Any, result: StepResult) -> None: ...


class Observer(Protocol):
    """Is told what happens."""

    def took_step(self, seat: int, transition: Transition) -> None:
        """The player in this seat took a step."""

    def round_of_steps_done(self) -> None:
        """Every player whose episode goes on has taken a step since the last call."""


DecideTogether = Callable[[Sequence[Any], Sequence[Observation]], Sequence[tuple[Decision, Any]]]
"""(actors, their observations) -> what `Actor.decide` returns, for each."""


@dataclass(frozen=True)
class Seat:
    """Where one game is played, and by whom."""

    environment: Environment
    actor: Actor


def play_episode(
    environment: Environment, actor: Actor, game: str, seed: int, *, clock: Stopwatch | None = None
) -> Episode:
    """Play one game from reset to its ending; see `play_together`."""
    return play_together([Seat(environment, actor)], [(game, seed)], clock=clock)[0]


def play_together(
    seats: Sequence[Seat],
    plays: Sequence[tuple[str, int]],
    *,
    decide: DecideTogether | None = None,
    observer: Observer | None = None,
    clock: Stopwatch | None = None,
) -> list[Episode]:
    """Play one game in each seat from reset to its ending; a game that ends early waits for the others.

    Args:
        plays: (game, seed) of each seat; there may be fewer than seats.
        decide: decides for several actors at once; left out, each is asked in turn.

    Raises:
        RunFailed: a game offers no admissible action.
    """
    clock = clock or Stopwatch()
    tables = [_Table(seat, *play) for seat, play in zip(seats, plays, strict=False)]
    for table in tables:
        table.begin(clock)
    while playing := [number for number, table in enumerate(tables) if table.episode.ending is None]:
        actors = [tables[number].seat.actor for number in playing]
        seen = [tables[number].offered() for number in playing]
        choices = decide(actors, seen) if decide else [a.decide(o) for a, o in zip(actors, seen, strict=True)]
        with clock.part("environment"):
            for number, (decision, _) in zip(playing, choices, strict=True):
                tables[number].send(decision.action)
        for number, choice in zip(playing, choices, strict=True):
            transition = tables[number].receive(*choice, clock)
            if observer is not None:
                observer.took_step(number, transition)
        if observer is not None:
            observer.round_of_steps_done()
    return [table.episode for table in tables]


class Play:
    """One game play, step by step, by an actor who may be overruled.

    ``for step in play`` lets the actor act to the end; `decide` and `step` do the same by hand. Environment and
    actor serve one play at a time, see `leave`.

    Args:
        split, number: the split and the pass over it that the play belongs to, for those who show it.
    """

    def __init__(
        self, environment: Environment, actor: Actor, game: str, seed: int, *, split: str = "", number: int = 0
    ) -> None:
        self.game = game
        self.seed = seed
        self.split = split
        self.number = number
        self._clock = Stopwatch()
        self._table = _Table(Seat(environment, actor), game, seed)
        self._table.begin(self._clock)
        self._choice: tuple[Decision, Any] | None = None
        self._left = ""

    def __repr__(self) -> str:
        return f"Play({self.game!r}, {self.episode.steps} steps, score {self.episode.score:g})"

    def __iter__(self) -> Iterator[Transition]:
        while self.episode.ending is None:
            yield self.step()

    @property
    def episode(self) -> Episode:
        """What was played so far."""
        return self._table.episode

    @property
    def observation(self) -> Observation:
        """What the actor sees now; after the ending, what it saw last."""
        return self._table.observation

    def decide(self) -> tuple[Decision, Any]:
        """What the actor would do now, and its trace; it is asked once for each step.

        Raises:
            CbrError: the game is over, or the play was left.
            RunFailed: the game offers nothing to do.
        """
        over = self._left or (self.episode.ending and f"the game is over: {self.episode.ending}")
        if over:
            raise CbrError(f"{self.game}: no more steps: {over}")
        if self._choice is None:
            self._choice = self._table.seat.actor.decide(self._table.offered())
        return self._choice

    def step(self, decision: Decision | None = None) -> Transition:
        """Execute the actor's decision, or another one in its place. Raises what `decide` does."""
        own, trace = self.decide()
        decision, self._choice = decision or own, None
        self._table.send(decision.action)
        return self._table.receive(decision, trace, self._clock)

    def leave(self, why: str) -> None:
        """Take no more steps: environment or actor are needed for something else."""
        self._left = why


class _Table:
    """One game that is being played."""

    def __init__(self, seat: Seat, game: str, seed: int) -> None:
        self.seat = seat
        self.episode = Episode(game, seed)
        self._concurrent = seat.environment if isinstance(seat.environment, ConcurrentEnvironment) else None

    def begin(self, clock: Stopwatch) -> None:
        self.seat.actor.begin(self.episode.game)
        with clock.part("environment"):
            self.observation = self.seat.environment.reset(self.episode.game, self.episode.seed)

    def offered(self) -> Observation:
        """The present observation; RunFailed if there is nothing to do."""
        if not self.observation.admissible:
            raise RunFailed(
                f"{self.episode.game}: no admissible action after {self.episode.steps} steps:"
                f" {self.observation.text!r}"
            )
        return self.observation

    def send(self, action: Action) -> None:
        """Let the engine begin to work, if it can do so by itself."""
        if self._concurrent is not None:
            self._concurrent.send(action)

    def receive(self, decision: Decision, trace: Any, clock: Stopwatch) -> Transition:
        """What came of the action, told to the actor."""
        with clock.part("environment"):
            if self._concurrent is not None:
                result = self._concurrent.receive()
            else:
                result = self.seat.environment.step(decision.action)
        self.seat.actor.observe(decision, trace, result)
        transition = Transition(self.observation, decision, result, trace)
        self.episode.transitions.append(transition)
        self.observation = result.observation
        return transition
