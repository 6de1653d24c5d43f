"""Settings of the Text agent."""

from __future__ import annotations

from cbr_nn.config import ReadingConfig


class TextConfig(ReadingConfig):
    """The Text agent [P §6.1]. The paper gives no sizes; these are those of the public TWC baseline."""
