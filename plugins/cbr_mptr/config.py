"""Settings of the multi-paragraph text-based retriever [P App. F]."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cbrcore.config import ComponentConfig


class MultiParagraphConfig(ComponentConfig):
    """The paper gives no numbers; two earlier paragraphs is what MPRC-DQN's code takes."""

    history: Annotated[int, Field(ge=0, le=16)] = 2
    """n: earlier paragraphs that stand beside the current observation."""
    prefer: Literal["action", "recent"] = "action"
    """Which n: `action`: first those that share an object with the action, then those that share one with the
    observation. `recent`: simply the n most recent ones that share an object with either."""
    dim: Annotated[int, Field(ge=1)] | None = None
    """d, the width of contexts and of the network's hidden layer; that of the text encoder if left out."""
