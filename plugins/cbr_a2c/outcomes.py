"""What came of a step: the rewards of it and of the steps after it, once they are known [P §5, L_r]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cbrcore.types import Transition


@dataclass
class Outcome:
    """A step with the rewards that are counted for it so far, and how many steps are still to come."""

    step: Transition
    reward: float
    waits: int

    @property
    def failed(self) -> bool:
        """y of L_r: all in all it earned nothing."""
        return self.reward <= 0


class Outcomes:
    """Of each game that is played at the same time: the steps whose outcome is not known yet, and those whose
    outcome was not asked for since it is.

    A window of an update is shorter than an episode: a step at its end waits for the next one, or for the
    episode's end. So nothing waits where all episodes have ended, which is where checkpoints are taken.

    Args:
        seats: how many games are played at the same time.
        steps: so many rewards make an outcome, from the step's own on; fewer where the episode ends.
    """

    def __init__(self, seats: int, steps: int) -> None:
        self.steps = steps
        self._waiting: list[list[Outcome]] = [[] for _ in range(seats)]
        self._known: list[list[Outcome]] = [[] for _ in range(seats)]

    def __repr__(self) -> str:
        return f"Outcomes({self.steps} steps, {sum(map(len, self._waiting))} waiting)"

    def add(self, seat: int, step: Transition) -> None:
        """A step of the player in this seat."""
        waiting = self._waiting[seat]
        waiting.append(Outcome(step, 0.0, self.steps))
        for outcome in waiting:
            outcome.reward += step.result.reward
            outcome.waits -= 1
        over = step.result.ending is not None
        self._known[seat] += [outcome for outcome in waiting if over or not outcome.waits]
        self._waiting[seat] = [outcome for outcome in waiting if not over and outcome.waits]

    def take(self) -> Sequence[Outcome]:
        """What became known since the last call, seat by seat, the oldest step first."""
        known, self._known = self._known, [[] for _ in self._known]
        return [outcome for seat in known for outcome in seat]
