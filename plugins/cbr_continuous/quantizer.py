"""The context itself as the key: CBR without vector quantization [P App. C]."""

from __future__ import annotations

from cbr_continuous.config import ContinuousContextConfig
from cbr_keys.fixed import ContinuousKeys
from cbr_keys.vectors import CosineIndex
from cbrcore.interfaces import Build


class ContinuousContext(ContinuousKeys):
    """key(c) = c, and sim(c, c') = max(0, cos(c, c')).

    Shapes: n contexts, d = build.context_dim.

    Raises:
        RunFailed: contexts given to a method are not finite.
    """

    def __init__(self, config: ContinuousContextConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.width = build.context_dim
        self.device = build.device

    def __repr__(self) -> str:
        return f"ContinuousContext(width={self.width})"

    def index(self) -> CosineIndex:
        """An empty index for contexts."""
        return CosineIndex(self.width, self.device)
