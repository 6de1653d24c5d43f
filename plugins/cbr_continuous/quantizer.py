"""The context itself as the key: CBR without vector quantization [P App. C]."""

from __future__ import annotations

from torch import Tensor

from cbr_continuous.config import ContinuousContextConfig
from cbr_keys.checks import finite
from cbr_keys.cosine import cosine
from cbr_keys.fixed import FixedQuantizer
from cbr_keys.vectors import CosineIndex
from cbrcore.interfaces import Build


class ContinuousContext(FixedQuantizer):
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

    def keys(self, contexts: Tensor) -> Tensor:
        """The contexts [n, d] as constants."""
        return finite(contexts).detach().float()

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n]: max(0, cos) of context i [n, d] and stored key i [n, d], a constant."""
        return cosine(finite(contexts), keys)

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n]: max(0, cos) of contexts left_i and right_i [n, d]; gradients reach both."""
        return cosine(finite(left), finite(right))

    def index(self) -> CosineIndex:
        """An empty index for contexts."""
        return CosineIndex(self.width, self.device)
