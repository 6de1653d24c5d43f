"""A quantizer of each kind for tests of the memory, and cases with keys of its kind."""

from __future__ import annotations

from functools import cache

import torch

from cbr_continuous.config import ContinuousContextConfig
from cbr_continuous.quantizer import ContinuousContext
from cbr_fsq.config import FiniteScalarQuantizerConfig
from cbr_fsq.quantizer import FiniteScalarQuantizer
from cbr_lsh.config import HashedContextConfig
from cbr_lsh.quantizer import HashedContext
from cbr_projection.config import RandomProjectionConfig, SignRandomProjectionConfig
from cbr_projection.quantizer import RandomProjection, SignRandomProjection
from cbr_vq.config import VectorQuantizerConfig
from cbr_vq.quantizer import VectorQuantizer
from cbrcore import Build
from cbrcore.interfaces import Quantizer, StoredCases
from cbrcore.types import Case, Provenance

KINDS = ("continuous", "vq", "fsq", "rp", "srp", "lsh")


@cache
def quantizer(kind: str, dim: int, parts: int) -> Quantizer:
    """A quantizer of this kind; its keys have so many parts, if they have parts."""
    build = Build(context_dim=dim)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return {
            "continuous": lambda: ContinuousContext(ContinuousContextConfig(), build),
            "vq": lambda: VectorQuantizer(VectorQuantizerConfig(codes=16, parts=parts), build),
            "fsq": lambda: FiniteScalarQuantizer(FiniteScalarQuantizerConfig(parts=parts), build),
            "rp": lambda: RandomProjection(RandomProjectionConfig(size=parts), build),
            "srp": lambda: SignRandomProjection(SignRandomProjectionConfig(size=parts), build),
            "lsh": lambda: HashedContext(HashedContextConfig(tables=4, bits=3, bucket_size=2), build),
        }[kind]()


def contexts(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def many_cases(keys: torch.Tensor) -> StoredCases:
    """One case for each key, of 50 templates."""
    origin = Provenance("game", seed=0, episode=1, step=1, reward=1.0)
    templates = [f"take {{}} {number}" for number in range(50)]
    cases = [Case(n, templates[n % 50], ("cup",), "take cup", origin, seeds=("cup",)) for n in range(len(keys))]
    return StoredCases(cases, keys, [None] * len(keys), "", "", len(keys))
