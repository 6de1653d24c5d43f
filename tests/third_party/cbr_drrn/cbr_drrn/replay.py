"""The replay memory: steps, drawn at random, and its form in a checkpoint."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cbr_drrn.reading import Reading


class Step(NamedTuple):
    """(s, a, r, s'): `before` asks about the one action that was executed; `after` is None where the game ended or
    nothing can be done any more."""

    before: Reading
    reward: float
    after: Reading | None


class Ring:
    """The last `size` steps."""

    def __init__(self, size: int, steps: Iterable[Step] = (), oldest: int = 0) -> None:
        self.size = size
        self.steps = list(steps)
        self.oldest = oldest

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: Step) -> None:
        """Over the oldest one, where it is full."""
        if len(self.steps) < self.size:
            self.steps.append(step)
        else:
            self.steps[self.oldest] = step
            self.oldest = (self.oldest + 1) % self.size

    def draw(self, count: int, rng: np.random.Generator) -> list[Step]:
        """With replacement."""
        return [self.steps[place] for place in rng.integers(len(self.steps), size=count)]


class Replay:
    """All steps, and beside them the rewarded ones, so that these can be drawn more often.

    Args:
        size: steps of either kind that are held.
        rewarded_share: of a batch, from the rewarded steps alone; uniform while there is none.
    """

    def __init__(self, size: int, rewarded_share: float) -> None:
        self.rewarded_share = rewarded_share
        self.every, self.rewarded = Ring(size), Ring(size)

    def __len__(self) -> int:
        return len(self.every)

    def __repr__(self) -> str:
        return f"Replay({len(self)} steps, {len(self.rewarded)} rewarded)"

    def add(self, step: Step) -> None:
        """A step that was taken."""
        self.every.add(step)
        if self.rewarded_share and step.reward > 0:
            self.rewarded.add(step)

    def draw(self, count: int, rng: np.random.Generator) -> list[Step]:
        """A batch; there must be a step."""
        rewarded = round(count * self.rewarded_share) if len(self.rewarded) else 0
        return self.rewarded.draw(rewarded, rng) + self.every.draw(count - rewarded, rng)

    def tensor(self) -> Tensor:
        """[bytes] uint8: everything, compressed."""
        texts: dict[str, int] = {}
        rings = [
            {"oldest": ring.oldest, "steps": [_written(step, texts) for step in ring.steps]}
            for ring in (self.every, self.rewarded)
        ]
        whole = json.dumps({"texts": list(texts), "rings": rings}).encode()
        return torch.frombuffer(bytearray(zlib.compress(whole, 1)), dtype=torch.uint8)

    def load(self, tensor: Tensor) -> None:
        """Become what `tensor` was made of."""
        data = json.loads(zlib.decompress(tensor.cpu().numpy().tobytes()))
        texts = data["texts"]
        self.every, self.rewarded = (
            Ring(ring.size, (_read(row, texts) for row in kept["steps"]), kept["oldest"])
            for ring, kept in zip((self.every, self.rewarded), data["rings"], strict=True)
        )


def _written(step: Step, texts: dict[str, int]) -> list[Any]:
    """A step with its texts as numbers, which `texts` counts."""

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def written(state: Reading | None) -> list[Any] | None:
        return state and [*map(number, state[:3]), list(map(number, state.actions))]

    return [written(step.before), step.reward, written(step.after)]


def _read(row: Sequence[Any], texts: Sequence[str]) -> Step:
    def read(state: Sequence[Any] | None) -> Reading | None:
        if state is None:
            return None
        feedback, description, inventory, actions = state
        asked = tuple(texts[number] for number in actions)
        return Reading(texts[feedback], texts[description], texts[inventory], asked)

    before, reward, after = row
    known = read(before)
    assert known is not None
    return Step(known, reward, read(after))
