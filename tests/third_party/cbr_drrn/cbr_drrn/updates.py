"""Adam with clipped gradients, which goes on after a resume and skips what is not finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from cbrcore import RunFailed

MOST_IN_A_ROW = 10
IN_A_ROW = "in_a_row"


class Updates:
    """Steps of Adam on some parameters; there may be none, then nothing happens.

    Attributes:
        skipped: updates that a loss or gradient which is not finite has cost.
    """

    def __init__(self, name: str, parameters: Iterable[nn.Parameter], rate: float, clip: float) -> None:
        self.name, self.clip, self.skipped, self._in_a_row = name, clip, 0, 0
        self.parameters = [each for each in parameters if each.requires_grad] if rate else []
        self.adam = torch.optim.Adam(self.parameters, lr=rate) if self.parameters else None

    def step(self, loss: Tensor) -> bool:
        """Minimise the loss by one step; whether it was done.

        Raises:
            RunFailed: ten in a row were skipped.
        """
        if self.adam is None or not loss.requires_grad:
            return False
        self.adam.zero_grad()
        torch.autograd.backward([loss])
        norm = nn.utils.clip_grad_norm_(self.parameters, self.clip)
        if not torch.isfinite(norm + loss.detach()):
            self._skip()
            return False
        self.adam.step()
        self._in_a_row = 0
        return True

    def _skip(self) -> None:
        self.skipped += 1
        self._in_a_row += 1
        if self._in_a_row >= MOST_IN_A_ROW:
            raise RunFailed(
                f"{self.name}: {MOST_IN_A_ROW} updates in a row had a loss or gradient that is not finite",
                hint="lower the learning rate; the last checkpoint is intact",
            )

    def tensors(self) -> dict[str, Tensor]:
        """Adam's state, by names with a colon."""
        state = self.adam.state_dict()["state"] if self.adam else {}
        found = {f"{self.name}:{row}.{key}": value for row, entry in state.items() for key, value in entry.items()}
        return found | {f"{self.name}:{IN_A_ROW}": torch.tensor(self._in_a_row)}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave; others may be among them."""
        own = {
            name.partition(":")[2]: value for name, value in tensors.items() if name.startswith(f"{self.name}:")
        }
        self._in_a_row = int(own.pop(IN_A_ROW))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in own.items():
            row, _, key = name.partition(".")
            state.setdefault(int(row), {})[key] = value
        if self.adam is not None:
            self.adam.load_state_dict({"state": state, "param_groups": self.adam.state_dict()["param_groups"]})
