"""Vectors of distinct texts in one growing tensor: each text is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from cbr_text_encoders.text import canonical
from cbrcore.errors import ModelError


class VectorStore(Protocol):
    """Vectors that outlive the process."""

    def load(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """The known ones of `texts`, each [dim]."""
        ...

    def save(self, vectors: dict[str, Tensor]) -> None: ...


class VectorTable:
    """Texts -> rows of a tensor [capacity, dim]; unknown texts come from the store, else from `compute`.

    Args:
        dim: width of a vector.
        device: where the tensor lives.
        compute: n texts -> [n, dim].
        store: where vectors are kept between runs; None: nowhere.
    """

    def __init__(
        self,
        dim: int,
        device: str,
        compute: Callable[[Sequence[str]], Tensor],
        store: VectorStore | None = None,
    ) -> None:
        self._compute = compute
        self._store = store
        self._rows: dict[str, int] = {}
        self._size = 0
        self._vectors = torch.empty(64, dim, device=device)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"VectorTable({self._size} texts, dim={self._vectors.shape[1]})"

    def lookup(self, texts: Sequence[str]) -> Tensor:
        """[n, dim], a copy.

        Raises:
            ModelError: the vector of a text is not finite.
        """
        rows = self._rows
        if not all(text in rows for text in texts):
            self._learn(texts)
        picked = torch.tensor([rows[text] for text in texts], dtype=torch.long, device=self._vectors.device)
        return self._vectors.index_select(0, picked)

    def _learn(self, texts: Sequence[str]) -> None:
        """Give every text a row; spellings of one text share it."""
        spelling = {text: canonical(text) for text in texts if text not in self._rows}
        new = [text for text in dict.fromkeys(spelling.values()) if text not in self._rows]
        if new:
            with torch.inference_mode(mode=False):  # the table outlives the caller's mode
                self._append(new, self._fetch(new))
        for text, same in spelling.items():
            self._rows[text] = self._rows[same]

    def _fetch(self, texts: list[str]) -> Tensor:
        found = self._store.load(texts) if self._store else {}
        unknown = [text for text in texts if text not in found]
        if unknown:
            vectors = self._compute(unknown)
            _require_finite(unknown, vectors)
            computed = dict(zip(unknown, vectors.cpu(), strict=True))
            found.update(computed)
            if self._store:
                self._store.save(computed)
        return torch.stack([found[text] for text in texts])

    def _append(self, texts: list[str], vectors: Tensor) -> None:
        end = self._size + len(texts)
        if end > len(self._vectors):
            grown = self._vectors.new_empty(max(end, 2 * len(self._vectors)), self._vectors.shape[1])
            grown[: self._size] = self._vectors[: self._size]
            self._vectors = grown
        self._vectors[self._size : end] = vectors.to(self._vectors)
        self._rows.update(zip(texts, range(self._size, end), strict=True))
        self._size = end


def _require_finite(texts: Sequence[str], vectors: Tensor) -> None:
    """One bad vector would spread into codebook and memory: stop at its text."""
    finite = vectors.isfinite().all(dim=1)
    if not finite.all():
        text = texts[int(finite.logical_not().nonzero()[0])]
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise ModelError(
            f"the text encoder gives a vector with NaN or infinity for the text {shown!r}",
            hint="the model's files may be damaged: download them again, or take another text_encoder",
        )
