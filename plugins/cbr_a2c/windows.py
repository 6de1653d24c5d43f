"""Steps of the running episodes until an update is due, with their n-step returns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch

from cbr_a2c.a2c import n_step_returns
from cbr_a2c.novelty import Novelty
from cbrcore.config import TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.interfaces import Trainable
from cbrcore.rng import Streams
from cbrcore.types import Ending, Transition


class Windows:
    """One window of consecutive steps for each game that is played at the same time.

    Args:
        players: who plays; they value the observation after a window's last step.
        novelty: weight of the bonus for what was seen seldom, which is added to the rewards.
    """

    def __init__(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, novelty: float = 0.0
    ) -> None:
        self.players = players
        self.training = training
        self.novelty = Novelty(novelty)
        self._windows: list[list[tuple[Transition, float]]] = [[] for _ in players]  # steps, what each earns

    def __repr__(self) -> str:
        return f"Windows({[len(window) for window in self._windows]} steps)"

    def add(self, seat: int, step: Transition) -> None:
        """A step of the player in this seat."""
        self._windows[seat].append((step, step.result.reward + self._bonus(step)))

    @property
    def due(self) -> bool:
        """Whether a window is full, or every episode has ended."""
        begun = [window for window in self._windows if window]
        full = any(len(window) >= self.training.update_every for window in begun)
        return bool(begun) and (full or all(window[-1][0].result.ending is not None for window in begun))

    def take(self, *, valued: bool) -> tuple[list[Transition], list[float]]:
        """All steps, and the return R_t of each; the windows are empty then.

        Args:
            valued: whether the value of what follows a window counts (not for an agent that learns nothing).
        """
        windows, self._windows = self._windows, [[] for _ in self.players]
        returns = [
            target
            for player, window in zip(self.players, windows, strict=True)
            if window
            for target in self._returns(player, window, valued=valued)
        ]
        return [step for window in windows for step, _ in window], returns

    def _returns(
        self, player: CaseBasedReasoner, window: list[tuple[Transition, float]], *, valued: bool
    ) -> list[float]:
        rewards = [reward for _, reward in window]
        last = window[-1][0].result
        # V(s_T) is 0 where the game truly ended, else (also at a time limit) the next observation's value
        ended = last.ending is not None and last.ending.terminal
        bootstrap = player.value_of(last.observation) if valued and not ended else 0.0
        return n_step_returns(rewards, gamma=self.training.gamma, bootstrap=bootstrap)

    def _bonus(self, step: Transition) -> float:
        self.novelty.look(step.observation)
        won = self.training.win_bonus if step.result.ending is Ending.WON else 0.0
        return won + self.novelty.see(step.result.observation)


class LossMeans:
    """Losses since the last metrics row.

    Args:
        further: names of losses beside `NAMES`.
    """

    NAMES = ("policy", "value", "entropy", "retriever")

    def __init__(self, further: Iterable[str] = ()) -> None:
        self._names = (*self.NAMES, *further)
        self._losses: dict[str, list[float]] = defaultdict(list)

    def note(self, **losses: float) -> None:
        """One update's losses per step; what is not finite belongs to an update that was skipped."""
        for name, value in losses.items():
            if math.isfinite(value):
                self._losses[name].append(value)

    def pop(self) -> dict[str, float | None]:
        """Means since the last call as ``loss_<name>``; None where there was no update."""
        found = {name: self._losses[name] for name in self._names}
        self._losses.clear()
        return {f"loss_{name}": sum(values) / len(values) if values else None for name, values in found.items()}


def seed_all(seed: int) -> None:
    """As torch.manual_seed(seed): without an accelerator in use it is not told to seed one later, which costs more
    than an update's dropout."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def training_mode(*modules: Trainable, streams: Streams, name: str) -> Iterator[None]:
    """Modules in train mode, torch's global generator (dropout) on the named stream; both are put back."""
    seed = int(streams.numpy(name).integers(2**62))
    for module in modules:
        module.train()
    with torch.random.fork_rng():
        seed_all(seed)
        try:
            yield
        finally:
            for module in modules:
                module.train(False)
