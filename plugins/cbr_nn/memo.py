"""Each distinct text or graph is encoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from cbrcore.freshness import FreshCache

Key = TypeVar("Key", bound=Hashable)


class Memo:
    """Encodings by encoder and input.

    With gradients each distinct input of a call is encoded once; without, once until a parameter changes.

    Args:
        parameters: everything that the encodings depend on.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._cache: FreshCache[Tensor] = FreshCache(parameters)

    def __repr__(self) -> str:
        return f"Memo({self._cache!r})"

    def clear(self) -> None:
        """Forget everything: an encoding may differ in its last bit with what it was computed together with, and
        an episode must not depend on what was played before it in the same process."""
        self._cache.clear()

    def rows(self, encode: Callable[[Sequence[Key]], Tensor], inputs: Sequence[Key]) -> Tensor:
        """[n, w]: a row per input, where `encode` gives [distinct, w]."""
        distinct = list(dict.fromkeys(inputs))
        if torch.is_grad_enabled():
            vectors = encode(distinct)
        else:
            vectors = torch.stack(self._known(encode, distinct))
        row = {item: position for position, item in enumerate(distinct)}
        return vectors.index_select(0, torch.tensor([row[item] for item in inputs], device=vectors.device))

    def each(self, encode: Callable[[Sequence[Key]], Sequence[Tensor]], inputs: Sequence[Key]) -> list[Tensor]:
        """A tensor per input, where `encode` gives one of its own shape for each distinct input."""
        distinct = list(dict.fromkeys(inputs))
        encoded = encode(distinct) if torch.is_grad_enabled() else self._known(encode, distinct)
        found = dict(zip(distinct, encoded, strict=True))
        return [found[item] for item in inputs]

    def _known(self, encode: Callable[[Sequence[Key]], Iterable[Tensor]], distinct: Sequence[Key]) -> list[Tensor]:
        cache = self._cache.values()
        missing = [item for item in distinct if (encode, item) not in cache]
        if missing:
            cache.update({(encode, item): value for item, value in zip(missing, encode(missing), strict=True)})
        return [cache[encode, item] for item in distinct]
