"""Settings of the KD-code quantizer [P §4.2]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore.config import ComponentConfig


class VectorQuantizerConfig(ComponentConfig):
    """KD codes: a context is cut into D parts, and each part replaced by the nearest of K entries."""

    codes: Annotated[int, Field(ge=2, le=256)] = 32
    """K: entries of each codebook."""
    parts: Annotated[int, Field(ge=1)] = 32
    """D: parts of a context, each with a codebook of its own; D must divide the width of a context."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """T: how soft the codes are for gradients. Parts have the length sqrt(d/D), so 1 is one unit of variance."""
    codebook_weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the loss that moves entries to the contexts they stand for."""
    commitment_weight: Annotated[float, Field(ge=0)] = 0.25
    """Weight of the loss that keeps contexts near their entries."""
    revive_after: Annotated[int, Field(ge=0)] = 100
    """Training updates without use after which an entry is dead, and may move to where it is needed; 0: never."""
    revive_error: Annotated[float, Field(gt=0)] = 0.25
    """A dead entry is needed where a part's squared distance to the nearest entry is this share of its squared
    length."""
    kmeans_iterations: Annotated[int, Field(ge=0)] = 25
    """Most rounds of k-means when the codebooks are initialised."""
    window: Annotated[int, Field(ge=1)] = 1024
    """How many recent contexts of training the figures of usage and perplexity count."""
