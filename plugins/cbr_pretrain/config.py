"""Settings of the pretraining."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig
from cbrcore.config import ExistingPath

MADE_BEFORE = ExistingPath("cbr pretrain RECIPE --out DIR", holds="retriever.safetensors")


class PretrainConfig(ComponentConfig):
    """Pretraining of the retriever from the experience of a baseline agent [P §5]."""

    episodes: Annotated[int, Field(ge=0)] = 20
    """Passes over the training games played by a uniform random agent to collect experience; 0: no pretraining."""
    epochs: Annotated[int, Field(ge=1)] = 20
    """Passes over the pairs of collected experience (at most 50 updates each)."""
    batch_size: Annotated[int, Field(ge=2)] = 64
    """Pairs per update."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """Adam's step size."""
    retriever: Annotated[str, MADE_BEFORE] | None = None
    """Take a retriever that `cbr pretrain` made instead: its folder, relative to the recipe."""
    positives_above: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Stop early when this share of the positive pairs is above tau and 1 minus it of the negatives at most."""
