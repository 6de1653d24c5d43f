"""Settings of `most_relevant`."""

from typing import Annotated, ClassVar

from pydantic import Field

from cbrcore.config import ReuseConfig


class MostRelevantConfig(ReuseConfig):
    """The rule of the paper [P §3]; every deviation from it is a setting that is off by default."""

    retry_solved: bool = True
    """Reuse actions on an object again whose goal was reached earlier in the same episode: the first entity of a
    rewarded action (the paper does). `false` is a deviation."""


class DoubtingConfig(MostRelevantConfig):
    """The rule of the paper while the agent is measured; while it learns the agent acts more often
    (a deviation)."""

    own_choice: ClassVar[bool] = True

    doubt: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the training steps with a fitting case on which the agent acts all the same, and learns."""
