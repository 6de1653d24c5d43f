"""An optimiser step that a bad batch cannot ruin."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from math import isfinite

import torch
from torch import Tensor
from torch.optim.adam import adam

from cbrcore.errors import RunFailed

log = logging.getLogger(__name__)
MOST_SKIPS_IN_A_ROW = 10
SKIPPED = "skipped_in_a_row"
BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's decay rates and the smallest divisor, those of `torch.optim.Adam`."""
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps of a parameter, in the words of `torch.optim.Adam`."""


class GuardedAdam:
    """Adam with gradient clipping that skips, and counts, updates with a non-finite loss or gradient.

    Clipping alone does not stop a NaN: it spreads it to every weight.

    Steps are torch's function `adam`. Its class `Adam` does the same, but imports torch's compiler as soon as it
    is made, which is a second at the start of each run.

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
        self.parameters = [parameter for group, _ in trained for parameter in group]
        self.rates = [rate for group, rate in trained for _ in group]
        self.clip = clip
        self.skipped = 0
        self._skipped_in_a_row = 0
        self._moments: dict[int, dict[str, Tensor]] = {}  # by row in `parameters`

    def __repr__(self) -> str:
        return f"GuardedAdam({self.name}, {len(self.parameters)} parameters, skipped={self.skipped})"

    @property
    def active(self) -> bool:
        """Whether there is anything to train."""
        return bool(self.parameters)

    def step(self, loss: Tensor) -> bool:
        """Minimise `loss` by one step; False if the update was skipped.

        Raises:
            RunFailed: too many skipped updates in a row.
        """
        if not self.active or not loss.requires_grad:
            return False
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        if not (isfinite(norm.item()) and isfinite(loss.item())):
            self._skip()
            return False
        self._minimise()
        self._skipped_in_a_row = 0
        return True

    @torch.no_grad()
    def _minimise(self) -> None:
        """A step of Adam for the parameters that have a gradient, those of one step size together."""
        met = [(row, each) for row, each in enumerate(self.parameters) if each.grad is not None]
        for row, parameter in met:
            if row not in self._moments:
                zero, first, second = torch.tensor(0.0), torch.zeros_like(parameter), torch.zeros_like(parameter)
                self._moments[row] = dict(zip(MOMENTS, (zero, first, second), strict=True))
        for rate in dict.fromkeys(self.rates):
            rows = [row for row, _ in met if self.rates[row] == rate]
            steps, means, squares = ([self._moments[row][name] for row in rows] for name in MOMENTS)
            parameters: list[Tensor] = [self.parameters[row] for row in rows]
            gradients = [each.grad for each in parameters if each.grad is not None]
            adam(
                parameters, gradients, means, squares, [], steps, foreach=True, amsgrad=False, maximize=False,
                beta1=BETAS[0], beta2=BETAS[1], lr=rate, weight_decay=0.0, eps=EPSILON,
            )  # fmt: skip

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
        kept = {f"{row}.{key}": value for row, entry in self._moments.items() for key, value in entry.items()}
        return kept | ({SKIPPED: torch.tensor(self._skipped_in_a_row)} if self._skipped_in_a_row else {})

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what `tensors` gave."""
        if not self.active:
            return
        tensors = dict(tensors)
        self._skipped_in_a_row = int(tensors.pop(SKIPPED, 0))
        self._moments = {}
        for name, value in tensors.items():
            row, _, key = name.partition(".")
            moved = value.clone() if key == "step" else value.to(self.parameters[int(row)], copy=True)
            self._moments.setdefault(int(row), {})[key] = moved


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
