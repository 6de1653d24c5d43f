"""Settings of KG-A2C."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbr_nn.config import ReadingConfig


class ScorerConfig(ReadingConfig):
    """KG-A2C [P §6.1], choosing among the admissible commands."""

    inputs: Literal["observation", "parts"] = "observation"
    """`observation`: the whole text by one reader. `parts`: description, inventory, feedback and last command,
    each by a reader of its own, as in the original agent for Jericho."""
    score_bits: Annotated[int, Field(ge=0, le=32)] = 0
    """Bits in which the agent is told its score: a sign and the number; the original has 10. 0: it is not told."""
    hint_commands: Annotated[int, Field(ge=0)] = 3
    """How many of the latest commands that scored guide the reading of the graph."""
