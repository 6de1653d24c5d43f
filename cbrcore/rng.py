"""Named random streams derived from the one seed of a run.

Every consumer asks by name; adding one does not shift the others. All states are plain data, for checkpoints.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


def derive_seed(seed: int, name: str) -> int:
    """A 63-bit seed for the stream `name`, the same on every machine."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int) -> np.random.Generator:
    """A numpy generator of this seed."""
    return np.random.Generator(np.random.PCG64(seed))


@contextmanager
def undisturbed_randomness() -> Iterator[None]:
    """Give back the global states of `random` and numpy as they were; some libraries draw from them."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


class Streams:
    """The random sources of one run, by name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._numpy: dict[str, np.random.Generator] = {}
        self._torch: dict[str, torch.Generator] = {}

    def __repr__(self) -> str:
        return f"Streams(seed={self.seed}, used={sorted([*self._numpy, *self._torch])})"

    def numpy(self, name: str) -> np.random.Generator:
        """The numpy generator of this name; the same object at every call."""
        if name not in self._numpy:
            self._numpy[name] = np.random.Generator(np.random.PCG64(derive_seed(self.seed, name)))
        return self._numpy[name]

    def torch(self, name: str) -> torch.Generator:
        """The torch generator (CPU) of this name; the same object at every call."""
        import torch

        if name not in self._torch:
            self._torch[name] = torch.Generator().manual_seed(derive_seed(self.seed, name))
        return self._torch[name]

    def state(self) -> dict[str, Any]:
        """All states as JSON-able data."""
        return {
            "seed": self.seed,
            "numpy": {name: rng.bit_generator.state for name, rng in self._numpy.items()},
            "torch": {name: bytes(rng.get_state().tolist()).hex() for name, rng in self._torch.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken."""
        import torch

        self.seed = state["seed"]
        for name, value in state["numpy"].items():
            self.numpy(name).bit_generator.state = value
        for name, value in state["torch"].items():
            self.torch(name).set_state(torch.tensor(list(bytes.fromhex(value)), dtype=torch.uint8))
