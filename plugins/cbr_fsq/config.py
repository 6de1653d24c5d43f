"""Settings of finite scalar quantization."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore.config import ComponentConfig


class FiniteScalarQuantizerConfig(ComponentConfig):
    """A context is projected to D numbers, and each rounded to one of L levels."""

    parts: Annotated[int, Field(ge=1)] = 32
    """D: numbers per key. With 32, a relevance above tau = 0.7 means at least 23 equal codes."""
    levels: Annotated[int, Field(ge=2, le=256)] = 5
    """L: levels of each number. More levels make fewer contexts equal."""
    window: Annotated[int, Field(ge=1)] = 1024
    """How many recent contexts of training the figures of usage and perplexity count."""
