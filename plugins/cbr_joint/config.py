"""Settings of the joint variant."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbr_a2c.config import A2cConfig
from cbrcore import ComponentConfig
from cbrcore.config import NestedPart, Part


class JointConfig(ComponentConfig):
    """An agent around an agent [P App. E]."""

    agent: Annotated[Part, NestedPart("agent")]
    """The agent that is made aware of the case memory, with its settings, as in `{use: cbr_bike/bike, ...}`."""
    width: Annotated[int, Field(ge=1)] = 64
    """Width w of the vectors of actions and candidates; the selector has 2w + 1 numbers per action."""


class JointLearnerConfig(A2cConfig):
    """The joint learner [P App. E]."""
