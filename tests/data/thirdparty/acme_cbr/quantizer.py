"""Sign bits as keys: the simplest quantizer that fulfils the whole contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from acme_cbr.config import SignConfig
from cbrcore import Build


class SignQuantizer(nn.Module):
    """key_i = 1 if c_i >= 0 else -1; sim(c, c') = share of equal signs. It learns nothing itself."""

    def __init__(self, config: SignConfig, build: Build) -> None:
        super().__init__()
        self.slope = config.slope

    def __repr__(self) -> str:
        return f"SignQuantizer(slope={self.slope})"

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Nothing to fit."""

    def keys(self, contexts: Tensor) -> Tensor:
        """[n, d] -> [n, d] int8 of 1 and -1."""
        return _signs(contexts.detach()).to(torch.int8)

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: forward the exact share of equal signs, backward through tanh (straight-through)."""
        return _share(self._soft_signs(contexts), keys.to(contexts.dtype))

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n], gradients to both sides."""
        return _share(self._soft_signs(left), self._soft_signs(right))

    def regularizer(self, contexts: Tensor) -> Tensor:
        """0: there is nothing to keep close to the data."""
        return contexts.new_zeros(())

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Nothing to maintain."""

    def index(self) -> SignIndex:
        """An empty index."""
        return SignIndex()

    def metrics(self) -> Mapping[str, float]:
        """Nothing to log."""
        return {}

    def _soft_signs(self, contexts: Tensor) -> Tensor:
        soft = torch.tanh(self.slope * contexts)
        return _signs(contexts) + soft - soft.detach()


class SignIndex:
    """Exact search over sign keys [m, d]."""

    def __init__(self) -> None:
        self._keys = torch.zeros(0, 0, dtype=torch.int8)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"SignIndex({len(self)} keys)"

    def add(self, keys: Tensor) -> None:
        """Append keys [n, d]."""
        self._keys = torch.cat([self._keys, keys]) if len(self) else keys

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order."""
        self._keys = self._keys[list(rows)]

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, m]: share of equal signs."""
        stored = self._keys.to(torch.float32)  # [m, d]
        return _share(queries.to(torch.float32).unsqueeze(1), stored)  # [n, 1, d] with [m, d] -> [n, m]

    def keys(self) -> Tensor:
        """[m, d] int8."""
        return self._keys


def _signs(contexts: Tensor) -> Tensor:
    return torch.where(contexts >= 0, 1.0, -1.0).to(contexts.dtype)


def _share(left: Tensor, right: Tensor) -> Tensor:
    """Share of equal signs in the last dimension."""
    return ((left * right).mean(dim=-1) + 1) / 2
