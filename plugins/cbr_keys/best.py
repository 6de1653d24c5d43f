"""What is most similar to a query, above a threshold; exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

Best = tuple[float, list[int]]
"""(highest similarity, the rows that have it, ascending)"""


@runtime_checkable
class FindsBest(Protocol):
    """An optional ability of a `KeyIndex`: finds what is above a threshold without comparing all keys."""

    def best_above(self, queries: Tensor, threshold: float) -> list[Best | None]:
        """As `best_of` gives it for the similarities to queries [n, ...]."""


def best_of(similarities: Tensor, threshold: float) -> list[Best | None]:
    """For each row of [n, m] its maximum and where that is; None where it is not above the threshold (strictly, in
    single precision: 2 of 3 is not above 2/3; NaN never is)."""
    best = similarities.amax(dim=1)  # [n]
    above = (best > threshold).tolist()
    return [
        (relevance, (similarities[row] == best[row]).nonzero().flatten().tolist()) if above[row] else None
        for row, relevance in enumerate(best.tolist())
    ]
