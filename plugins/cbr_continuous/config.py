"""Settings of the quantizer that does not quantize [P App. C]."""

from __future__ import annotations

from cbrcore.config import ComponentConfig


class ContinuousContextConfig(ComponentConfig):
    """The context itself is the key. There is nothing to set; the cap on the memory is `memory.capacity`."""
