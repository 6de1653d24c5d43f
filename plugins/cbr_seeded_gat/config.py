"""Settings of seeded graph attention [P §4.1]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore.config import ComponentConfig


class SeededGatConfig(ComponentConfig):
    """Seeded graph attention; the defaults are the paper's for TextWorld Commonsense (Jericho: `layers: 3`)."""

    layers: Annotated[int, Field(ge=1, le=8)] = 2
    """n_l: how many times messages are passed; a context sees that many hops around the action's entities."""
    heads: Annotated[int, Field(ge=1)] = 12
    """Attention heads; they must divide the width d."""
    dim: Annotated[int, Field(ge=1)] | None = None
    """d, the width of node vectors and contexts; if it is not the text encoder's, a linear map goes between."""
    lambda_: Annotated[float, Field(ge=0, le=1, alias="lambda")] = 0.8
    """The share of beta, the weight of a node's messages, that moves to its neighbours at each layer."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of each layer's output that is dropped while training."""
    negative_slope: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Slope of the LeakyReLU in the attention coefficients, below zero."""
    relations: bool = False
    """Add the text encoding of an edge's relations to its attention key; the paper's equations have none."""
