"""Settings of the entity contexts [P App. G]."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbrcore.config import ComponentConfig


class EntityConfig(ComponentConfig):
    """The context of an action is its object entity; the defaults are the paper's."""

    entities: Literal["first", "mean"] = "first"
    """`first`: the first entity that the command names, the object of "put {} on {}", "insert {} into {}" and
    "take {} from {}". `mean`: the mean of the encodings of all entities, so that the place counts too."""
    dim: Annotated[int, Field(ge=1)] | None = None
    """d, the width of contexts and of the network's hidden layer; that of the text encoder if left out."""
