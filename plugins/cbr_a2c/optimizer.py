"""An optimiser step that a bad batch cannot ruin."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from cbrcore.errors import RunFailed

log = logging.getLogger(__name__)
MOST_SKIPS_IN_A_ROW = 10
SKIPPED = "skipped_in_a_row"


class GuardedAdam:
    """Adam with gradient clipping that skips, and counts, updates with a non-finite loss or gradient.

    Clipping alone does not stop a NaN: it spreads it to every weight.

    Args:
        name: for messages ("agent", "retriever").
        parameters: may be empty (the random agent); then nothing ever happens.
        learning_rate: Adam's step size; 0 freezes the parameters.
        clip: largest gradient norm.
        others: further parameters, each group with a step size of its own.
    """

    def __init__(
        self,
        name: str,
        parameters: Iterable[torch.nn.Parameter],
        *,
        learning_rate: float,
        clip: float,
        others: Iterable[tuple[Iterable[torch.nn.Parameter], float]] = (),
    ) -> None:
        self.name = name
        trained = [
            ([parameter for parameter in group if parameter.requires_grad], rate)
            for group, rate in [(parameters, learning_rate), *others]
            if rate
        ]
        groups = [{"params": group, "lr": rate} for group, rate in trained if group]
        self.parameters = [parameter for group, _ in trained for parameter in group]
        self.clip = clip
        self.skipped = 0
        self._skipped_in_a_row = 0
        self.adam = torch.optim.Adam(groups, foreach=True) if groups else None

    def __repr__(self) -> str:
        return f"GuardedAdam({self.name}, {len(self.parameters)} parameters, skipped={self.skipped})"

    @property
    def active(self) -> bool:
        """Whether there is anything to train."""
        return self.adam is not None

    def step(self, loss: Tensor) -> bool:
        """Minimise `loss` by one step; False if the update was skipped.

        Raises:
            RunFailed: too many skipped updates in a row.
        """
        if self.adam is None or not loss.requires_grad:
            return False
        self.adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        if not (torch.isfinite(norm) and torch.isfinite(loss)):
            self._skip()
            return False
        self.adam.step()
        self._skipped_in_a_row = 0
        return True

    def _skip(self) -> None:
        self.skipped += 1
        self._skipped_in_a_row += 1
        log.warning("%s: update skipped, loss or gradient is not finite (%d so far)", self.name, self.skipped)
        if self._skipped_in_a_row >= MOST_SKIPS_IN_A_ROW:
            raise RunFailed(
                f"{self.name}: {MOST_SKIPS_IN_A_ROW} updates in a row had a loss or gradient that is not finite",
                hint="lower the learning rate, or look for infinite rewards; the last checkpoint is intact",
            )

    def tensors(self) -> dict[str, Tensor]:
        """Adam's state as flat named tensors, for a checkpoint; and how many updates in a row were skipped, if
        the last one was."""
        state: dict[int, dict[str, Any]] = self.adam.state_dict()["state"] if self.adam else {}
        kept = {f"{row}.{key}": value for row, entry in state.items() for key, value in entry.items()}
        return kept | ({SKIPPED: torch.tensor(self._skipped_in_a_row)} if self._skipped_in_a_row else {})

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what `tensors` gave."""
        if self.adam is None:
            return
        tensors = dict(tensors)
        self._skipped_in_a_row = int(tensors.pop(SKIPPED, 0))
        whole = self.adam.state_dict()
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            row, _, key = name.partition(".")
            state.setdefault(int(row), {})[key] = value
        self.adam.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def optimizer_tensors(optimizers: Mapping[str, GuardedAdam]) -> dict[str, Tensor]:
    """The states of several optimisers as one flat dictionary, "name:key" -> tensor."""
    return {
        f"{name}:{key}": value
        for name, optimizer in optimizers.items()
        for key, value in optimizer.tensors().items()
    }


def load_optimizers(optimizers: Mapping[str, GuardedAdam], tensors: Mapping[str, Tensor]) -> None:
    """Continue from what `optimizer_tensors` gave; other tensors may be among them."""
    for name, optimizer in optimizers.items():
        prefix = f"{name}:"
        optimizer.load_tensors({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
