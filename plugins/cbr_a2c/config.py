"""Settings of the learner beside those of the recipe's `training:` section."""

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig


class A2cConfig(ComponentConfig):
    """`a2c` [P §5]."""

    outcome_steps: Annotated[int, Field(ge=1)] = 1
    """A reused step counts as failed for L_r if it and the next steps of its episode, so many in all, earned
    nothing together. 1: its own reward decides, as in the paper. As many as are retained (k of the retain policy)
    and a step that was retained for a later reward is not blamed where the reward comes again."""
    novelty: Annotated[float, Field(ge=0)] = 0.0
    """A bonus of novelty / sqrt(n) is added to the reward of the agent's loss for the n-th time that the run comes
    to a view (`Observation.fingerprint`), in points of the game; where the environment tells no views (TWC) it
    does nothing. Scores, cases and L_r know nothing of it. 0, as in the paper: none."""
