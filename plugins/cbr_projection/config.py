"""Settings of the random projections [P App. C]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore.config import ComponentConfig


class RandomProjectionConfig(ComponentConfig):
    """The key is R c, with R in R^{p x d} drawn once."""

    size: Annotated[int, Field(ge=1)] = 64
    """p: width of the projection."""


class SignRandomProjectionConfig(ComponentConfig):
    """The key is the signs of R c, with R in R^{p x d} drawn once."""

    size: Annotated[int, Field(ge=1)] = 64
    """p: number of signs. With 64, a relevance above tau = 0.7 means at least 45 equal signs."""
