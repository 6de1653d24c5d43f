"""Different values by number."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Numbered(Generic[T]):
    """Different values, each with a number, in the order in which they came.

    Attributes:
        values: by number.
    """

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = list(values)
        self._numbers = {value: number for number, value in enumerate(self.values)}

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Numbered({len(self)} values)"

    def __getitem__(self, number: int) -> T:
        return self.values[number]

    def get(self, value: T, other: int) -> int:
        """The number of a value, or another if it has none."""
        return self._numbers.get(value, other)

    def number(self, value: T) -> int:
        """The number of a value; a new one for a new value."""
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found
