"""A game play to step through, by hand or by the agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cbrcore.cycle.runner import GamePlay, Seat
from cbrcore.errors import CbrError
from cbrcore.types import Decision, Transition


class Play(GamePlay):
    """One game play, step by step, by an actor who may be overruled.

    ``for step in play`` lets the actor act to the end; `decide` and `step` do the same by hand. Environment and
    actor serve one play at a time, see `leave`.

    Args:
        split, number: the split and the pass over it that the play belongs to, for those who show it.

    Attributes:
        episode: what was played so far.
        observation: what the actor sees now; after the ending, what it saw last.
    """

    def __init__(self, seat: Seat, game: str, seed: int, *, split: str, number: int) -> None:
        super().__init__(seat, game, seed)
        self.split, self.number = split, number
        self._choice: tuple[Decision, Any] | None = None
        self._left = ""

    def __repr__(self) -> str:
        return f"Play({self.game!r}, {self.episode.steps} steps, score {self.episode.score:g})"

    def __iter__(self) -> Iterator[Transition]:
        while self.episode.ending is None:
            yield self.step()

    def decide(self) -> tuple[Decision, Any]:
        """What the actor would do now, and its trace; it is asked once for each step.

        Raises:
            CbrError: the game is over, or the play was left.
        """
        over = self._left or (self.episode.ending and f"the game is over: {self.episode.ending}")
        if over:
            raise CbrError(f"{self.game}: no more steps: {over}")
        if self._choice is None:
            self._choice = self.actor.decide(self.observation)
        return self._choice

    def step(self, decision: Decision | None = None) -> Transition:
        """Execute the actor's decision, or another one in its place. Raises what `decide` does."""
        own, trace = self.decide()
        decision, self._choice = decision or own, None
        self.send(decision)
        return self.receive(decision, trace)

    def leave(self, why: str) -> None:
        """Take no more steps: environment or actor are needed for something else."""
        self._left = why
