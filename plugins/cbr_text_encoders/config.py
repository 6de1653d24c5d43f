"""Settings of the text encoders."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbrcore.config import ComponentConfig


class TransformerConfig(ComponentConfig):
    """A frozen transformers model. The paper: `model: bert-base-uncased`, `pooling: cls` [P §4.1]."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """Hub name, or a folder (relative to the recipe; with `$VARIABLE`s). Left out: the packaged all-MiniLM-L6-v2,
    no network."""
    pooling: Literal["mean", "cls"] = "mean"
    """A text's vector: the mean of its tokens, or the first token. MiniLM is trained for `mean`."""
    max_tokens: Annotated[int, Field(ge=3)] = 256
    """Longer texts lose their beginning, so that the latest part stays; never above the model's own limit."""
    cache: bool = True
    """Keep encoded texts on disk, shared by all runs of this user."""


class UntrainedConfig(ComponentConfig):
    """Random word vectors."""

    dim: Annotated[int, Field(ge=1)] = 32
    """Width of a vector."""
