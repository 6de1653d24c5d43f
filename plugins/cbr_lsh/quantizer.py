"""The context as the key, found by locality-sensitive hashing [P App. C]."""

from __future__ import annotations

import torch
from torch import Tensor

from cbr_keys.fixed import ContinuousKeys
from cbr_lsh.config import HashedContextConfig
from cbr_lsh.index import HashIndex
from cbrcore.interfaces import Build
from cbrcore.rng import Streams


class HashedContext(ContinuousKeys):
    """key(c) = c, and sim(c, c') = max(0, cos(c, c')), but the memory looks only at keys that share a bucket.

    The hyperplanes are not trained; they are a buffer, so a checkpoint holds them.

    Shapes: n contexts, d = build.context_dim, l tables of h bits.

    Raises:
        RunFailed: contexts given to a method are not finite.
    """

    planes: Tensor

    def __init__(self, config: HashedContextConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        generator = Streams(build.seed).torch("hash-planes")
        planes = torch.randn(config.tables, config.bits, build.context_dim, generator=generator)
        self.register_buffer("planes", planes.to(build.device))  # [l, h, d]

    def __repr__(self) -> str:
        return f"HashedContext(tables={self.config.tables}, bits={self.config.bits})"

    def index(self) -> HashIndex:
        """An empty index with this quantizer's hyperplanes."""
        return HashIndex(self.planes, bucket_size=self.config.bucket_size)
