"""Settings that agents share which read text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbrcore import ComponentConfig

Unit = Literal["observation", "sentence"]


class ReadingConfig(ComponentConfig):
    """How an agent reads. The paper gives no sizes; these are those of the public TWC baseline."""

    hidden: Annotated[int, Field(ge=1)] = 300
    """Width h of the word projection and of each GRU direction; states are 2h wide."""
    unit: Unit = "observation"
    """What the GRU reads in one go: the whole observation, or each sentence by itself, averaged. Sentences
    repeat from step to step and are encoded once between updates, which is several times faster."""
    max_words: Annotated[int, Field(ge=1)] = 400
    """Longest text the GRU reads; of a longer one the first words (the newest feedback) are kept."""
