"""Where the views of two names stand in a context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cbr_goals.config import ViewsConfig


@dataclass(frozen=True)
class Layout:
    """The columns of a context: the views of the first name, those of the second, then the pair's value if any.

    Attributes:
        first, second: the views of each name.
        width: columns of one view: the text's vector, and one that is 1 where the view has no words.
        pair: whether the last column is the value of a pair feature.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    width: int
    pair: bool = False

    @classmethod
    def of(cls, config: ViewsConfig, text_dim: int, *, pair: bool) -> Layout:
        """Of contexts of these views of texts of this width."""
        return cls(config.first, config.second, text_dim + 1, pair)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all views, in their order: "first.full"."""
        return (*(f"first.{view}" for view in self.first), *(f"second.{view}" for view in self.second))

    @cached_property
    def views(self) -> Mapping[str, slice]:
        """The columns of each view, by its name."""
        return {name: slice(n * self.width, (n + 1) * self.width) for n, name in enumerate(self.names)}

    @cached_property
    def slots(self) -> tuple[slice, slice]:
        """The columns of each of the two names."""
        middle = len(self.first) * self.width
        return slice(0, middle), slice(middle, len(self.names) * self.width)

    @property
    def dim(self) -> int:
        """d."""
        return len(self.names) * self.width + self.pair
