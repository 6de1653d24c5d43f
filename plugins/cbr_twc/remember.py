"""A bounded memo."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by key, made once. It starts over when it is full, so that memory stays bounded."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._values: dict[Hashable, V] = {}

    def __repr__(self) -> str:
        return f"Remembered({len(self._values)} of {self.limit})"

    def keep(self, key: Hashable, value: V) -> V:
        """Store a value; returns it."""
        if len(self._values) >= self.limit:
            self._values.clear()
        self._values[key] = value
        return value

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value, made now if it is not there."""
        value = self._values.get(key)
        return self.keep(key, make()) if value is None else value
