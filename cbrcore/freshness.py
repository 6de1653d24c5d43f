"""A cache that is valid as long as some tensors stay what they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class FreshCache(Generic[Value]):
    """A dictionary of values computed from parameters; it empties itself when they change.

    torch counts the in-place changes of every tensor (an optimiser's step, a loaded state), so nobody
    has to remember to invalidate anything. Hold detached results only.

    Args:
        tensors: the parameters and buffers that the values depend on.
    """

    def __init__(self, tensors: Iterable[Any]) -> None:
        self._tensors = list(tensors)
        self._version = -1
        self._values: dict[Hashable, Value] = {}

    def __repr__(self) -> str:
        return f"FreshCache({len(self._values)} values of {len(self._tensors)} tensors)"

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()

    def values(self) -> dict[Hashable, Value]:
        """The entries that are still valid, to read and to write."""
        version = sum(tensor._version for tensor in self._tensors)
        if version != self._version:
            self._values.clear()
            self._version = version
        return self._values
