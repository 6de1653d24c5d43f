"""Settings of BiKE."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbr_commonsense.config import CommonsenseConfig
from cbr_nn.config import ReadingConfig


class BikeConfig(ReadingConfig):
    """BiKE [P §6.1]: state graph and commonsense graph."""

    hint_commands: Annotated[int, Field(ge=0)] = 3
    """How many of the latest commands that scored guide the reading of the graphs."""
    commonsense: CommonsenseConfig
    """Where the commonsense graph comes from."""
