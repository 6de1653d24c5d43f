"""Encoder, kernel and memory of goal cases, made of names whose vectors a test chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from parts import item
from torch import Tensor

from cbr_goals.config import EvidenceConfig, KernelConfig, NamesConfig
from cbr_goals.encoder import NamesEncoder
from cbr_goals.kernel import Kernel
from cbr_goals.memory import EvidenceMemory, evidence_memory
from cbrcore.config import NoSettings, Part
from cbrcore.interfaces import Build, RetainItem
from cbrcore.testing import WordHashEncoder
from cbrcore.types import Action, Provenance

PUT = "put {} on {}"
FEATURE = Part(use="test/feature", settings=NoSettings())


class Texts:
    """A text encoder of a given width; nothing is encoded."""

    identity = "texts"

    def __init__(self, dim: int) -> None:
        self.dim = dim


class Table:
    """Texts and their vectors, and what was asked for."""

    identity = "table"

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors, self.asked = vectors, list[str]()
        self.dim = len(next(iter(vectors.values())))

    def encode(self, texts: Sequence[str]) -> Tensor:
        self.asked += texts
        return torch.tensor([list(self.vectors[text]) for text in texts], dtype=torch.float32)


class Pairs:
    """A pair feature by a table; 0 for other pairs."""

    def __init__(self, values: Mapping[tuple[str, str], float]) -> None:
        self.table = values

    def __repr__(self) -> str:
        return "Pairs()"

    def values(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        return torch.tensor([self.table.get(pair, 0.0) for pair in pairs], dtype=torch.float32)


class Goals:
    """The three parts together, by names.

    Args:
        pairs: the values of a pair feature; None for none.
        views: `first` and `second` of encoder and kernel.
    """

    def __init__(self, texts=None, pairs=None, *, nu: float = 2.0, threshold: float = 0.0, **views) -> None:
        build = Build(
            text_encoder=texts or WordHashEncoder(), make=lambda *_: Pairs(pairs or {}), identity="goals"
        )
        feature = {} if pairs is None else {"pair_feature": FEATURE}
        self.encoder = NamesEncoder(NamesConfig(**views, **feature), build)
        self.kernel = Kernel(KernelConfig(**views), replace(build, context_dim=self.encoder.dim))
        config = EvidenceConfig(nu=nu, threshold=threshold)
        self.memory: EvidenceMemory = evidence_memory(config, replace(build, index=self.kernel.index))

    def keys(self, *tuples: tuple[str, ...]) -> Tensor:
        """[n, d]"""
        return self.kernel.keys(self.encoder.contexts_of_pairs([("", names) for names in tuples]))

    def case(self, *names: str, game: str = "g", template: str = PUT, step: int = 0):
        action, origin = Action("", template, names, names), Provenance(game, 0, 0, step, 1.0)
        return self.memory.add(item(self.keys(names)[0], action), origin, step=step)

    def tried(self, game: str, *names: str, right: bool = False, failed: bool = True, template: str = PUT) -> None:
        item = RetainItem(self.keys(names)[0], Action("", template, names, names), 0, float(right))
        origin = Provenance(game, 0, 0, 0, float(right))
        self.memory.note_outcome(item, origin, failed=failed and not right, step=0)
