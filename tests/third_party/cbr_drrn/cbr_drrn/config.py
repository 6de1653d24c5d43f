"""Settings of the agent and of the learner; defaults are those of the released DRRN for Jericho."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cbrcore import ComponentConfig


class DrrnConfig(ComponentConfig):
    """Settings of `DrrnAgent`."""

    embedding: Annotated[int, Field(ge=1)] = 128
    """Width of a word's learned vector."""
    hidden: Annotated[int, Field(ge=1)] = 128
    """Width h of each GRU, and of the layer above them."""
    buckets: Annotated[int, Field(ge=2, le=1_000_000)] = 8000
    """Words are hashed into so many vectors, where the release has as many pieces of SentencePiece."""
    max_words: Annotated[int, Field(ge=1)] = 300
    """Longest text that is read; of a longer one the last words are kept."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Actions are drawn from the softmax of Q / temperature."""


class DrrnLearnerConfig(ComponentConfig):
    """Settings of `DrrnLearner`, beside those of the recipe's `training:` section: of these it takes `gamma`,
    `update_every` (environment steps per update), the learning rates, `clip`, `margin` and `win_bonus`."""

    replay: Annotated[int, Field(ge=1)] = 500_000
    """Steps that the replay memory holds; the oldest leave first."""
    batch: Annotated[int, Field(ge=1)] = 64
    """Steps of an update, which begin when so many are known."""
    rewarded_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of a batch that is drawn from the rewarded steps alone (prioritized); 0, as released: uniform."""
    target_every: Annotated[int, Field(ge=0)] = 0
    """Updates between copies of the network that values the next state; 0, as released: it is the same one."""
