"""Settings of KG-A2C."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbr_a2c.config import A2cConfig
from cbr_nn.config import ReadingConfig

Inputs = Literal["observation", "parts"]
Bits = Annotated[int, Field(ge=0, le=32)]


class ScorerConfig(ReadingConfig):
    """KG-A2C [P §6.1], choosing among the admissible commands."""

    inputs: Inputs = "observation"
    """`observation`: the whole text by one reader. `parts`: description, inventory, feedback and last command,
    each by a reader of its own, as in the original agent for Jericho."""
    score_bits: Bits = 0
    """Bits in which the agent is told its score: a sign and the number; the original has 10. 0: it is not told."""
    hint_commands: Annotated[int, Field(ge=0)] = 3
    """How many of the latest commands that scored guide the reading of the graph."""


class DecoderConfig(ReadingConfig):
    """KG-A2C after Ammanabrolu and Hausknecht (2020), which decodes a template and then its objects."""

    hidden: Annotated[int, Field(ge=1)] = 50
    """Width h of the word projection and of each GRU direction; states are 2h wide, 100 as in the original."""
    inputs: Inputs = "parts"
    """`parts`: description, inventory, feedback and last command, each by a reader of its own, as in the original.
    `observation`: the whole text by one reader."""
    score_bits: Bits = 10
    """Bits in which the agent is told its score: a sign and the number. 0: it is not told."""


class SupervisedConfig(A2cConfig):
    """A2C, and the decoders' supervised losses beside it. Where the original takes 3 times the mean over a game's
    templates, and 9 times that over its words, the losses here are sums: an entry weighs as much as there, however
    many there are."""

    template_weight: Annotated[float, Field(ge=0)] = 0.02
    """Weight of L_T, how far the template decoder is from the templates that are admissible; 3 / 150 templates.
    0: none."""
    object_weight: Annotated[float, Field(ge=0)] = 0.015
    """Weight of L_O, how far the object decoder is from the objects that admissible commands have; 9 / 600 words.
    0: none."""
