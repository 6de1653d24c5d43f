"""The retriever: context encoder, quantizer and case memory [P §3, §4]."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from cbrcore.errors import RunFailed
from cbrcore.freshness import FreshCache
from cbrcore.interfaces import (
    ContextEncoder,
    Memory,
    Quantizer,
    Situation,
    Stopwatch,
    StoredCases,
    Trainable,
    ViewsActions,
)
from cbrcore.types import Action, EntityTuple, Match

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

PAIRS_AT_ONCE = 256
"""Contexts computed in one pass when the keys of a memory are made anew."""


class Retriever:
    """Context encoder + quantizer + case memory: everything that turns a state into matches.

    Keys are computed without gradients, once per (situation, seeds) until the parameters change.

    Args:
        identity: of what makes the keys: the settings of encoders and quantizer.
        refresh: whether the keys of the cases follow the parameters.
    """

    def __init__(
        self,
        encoder: ContextEncoder,
        quantizer: Quantizer,
        memory: Memory,
        *,
        identity: str = "",
        refresh: bool = False,
        clock: Stopwatch | None = None,
    ) -> None:
        self.encoder = encoder
        self.quantizer = quantizer
        self.memory = memory
        self.identity = identity
        self.refresh = refresh
        self.clock = clock or Stopwatch()
        tensors = [*encoder.state_dict().values(), *quantizer.state_dict().values()]
        self._keys: FreshCache[Tensor] = FreshCache(tensors)
        self._refreshed: FreshCache[bool] = FreshCache(tensors)

    def __repr__(self) -> str:
        return f"Retriever({self.encoder!r}, {self.quantizer!r}, {self.memory!r})"

    @property
    def threshold(self) -> float:
        """tau."""
        return self.memory.threshold

    def view(self, action: Action) -> Action:
        """The action as the context encoder sees it; see `ContextEncoder`."""
        return view_of(self.encoder, action)

    def forget(self) -> None:
        """Drop cached keys, so that an episode does not depend on what the process did before it (a key
        computed in another batch may differ in its last bit)."""
        self._keys.clear()

    def prepare(self, pairs: Iterable[tuple[Situation, EntityTuple]]) -> None:
        """Compute the keys of these pairs that are not known yet, in one pass of the encoder."""
        import torch

        cache = self._keys.values()
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in cache]
        if missing:
            with self.clock.part("encoder"), torch.no_grad():
                fresh = self.quantizer.keys(self.encoder.contexts_of_pairs(missing))
            cache.update(zip(missing, fresh, strict=True))

    def keys(self, situation: Situation, tuples: Sequence[EntityTuple]) -> Tensor:
        """[n, ...]: the context selectors c_t = phi(context(s_t, a_t)) of the seed tuples."""
        import torch

        pairs = [(situation, seeds) for seeds in tuples]
        self.prepare(pairs)
        cache = self._keys.values()
        return torch.stack([cache[pair] for pair in pairs])

    def retrieve(self, situation: Situation, tuples: Sequence[EntityTuple]) -> list[list[Match]]:
        """For each seed tuple the most similar case with relevance delta > tau (several only if they tie)."""
        if not tuples or not len(self.memory):
            return [[] for _ in tuples]
        self._refresh()
        keys = self.keys(situation, tuples)
        with self.clock.part("memory"):
            return self.memory.retrieve(keys)

    def key(self, situation: Situation, seeds: EntityTuple) -> Tensor:
        """[...]: the key of one context, to look into the memory with. An episode that goes on notices nothing: it
        computes its keys together, which may differ from this one in the last bit."""
        self._refresh()
        pair = (situation, seeds)
        known = self._keys.values().get(pair)
        return self._keys_of([pair])[0] if known is None else known

    def digest(self) -> str:
        """Of the parameters that make keys; equal digests mean that keys can be exchanged."""
        return tensors_digest(module_tensors(self.modules()))

    def parameters(self) -> list[Parameter]:
        """All that can be trained."""
        return [parameter for module in self.modules().values() for parameter in module.parameters()]

    def modules(self) -> dict[str, Trainable]:
        """What has parameters, by name."""
        return {"context_encoder": self.encoder, "quantizer": self.quantizer}

    def adopt(self, stored: StoredCases) -> int:
        """Add the cases of another run; how many are new. If its parameters were others, keys are made anew.

        Raises:
            RunFailed: that is not possible, because a case's situation was not stored.
        """
        if not stored.cases:
            return 0
        same = stored.weights == self.digest() and stored.identity == self.identity
        seeds = [case.seeds for case in stored.cases]
        keys = stored.keys if same else self._keys_of(list(zip(stored.situations, seeds, strict=True)))
        before = len(self.memory)
        self.memory.merge(stored, keys)
        return len(self.memory) - before

    @property
    def refreshed(self) -> bool:
        """Whether the keys of all cases were made anew since the parameters changed; a resumed run is told so."""
        return bool(self._refreshed.values())

    @refreshed.setter
    def refreshed(self, done: bool) -> None:
        self._refreshed.values().update({"done": True} if done else {})

    def _refresh(self) -> None:
        """Where keys follow the parameters: make those of all cases anew if these have changed since."""
        if not self.refresh or (cache := self._refreshed.values()):
            return
        for store in self.memory.stores().values():
            pairs = [(store.situations.get(case.id), case.seeds) for case in store.cases]
            if pairs:
                store.replace_keys(self._keys_of(pairs))
        cache["done"] = True

    def _keys_of(self, pairs: Sequence[tuple[Situation, EntityTuple]]) -> Tensor:
        """[n, ...]: the keys of cases, from their situations and seeds."""
        import torch

        if any(situation is None for situation, _ in pairs):
            raise RunFailed("the keys of some cases cannot be made again: their situations were not stored")
        chunks = [pairs[at : at + PAIRS_AT_ONCE] for at in range(0, len(pairs), PAIRS_AT_ONCE)]
        with self.clock.part("encoder"), torch.no_grad():
            return torch.cat([self.quantizer.keys(self.encoder.contexts_of_pairs(chunk)) for chunk in chunks])


def view_of(encoder: ContextEncoder, action: Action) -> Action:
    """The action as the encoder sees it; most take it as it is."""
    return cast(ViewsActions, encoder).view(action) if _views(type(encoder)) else action


_views = cache(lambda kind: issubclass(kind, ViewsActions))  # asked for each admissible action


def module_tensors(modules: Mapping[str, Trainable]) -> dict[str, Tensor]:
    """The state dicts of several modules as one: "name:key" -> tensor."""
    return {f"{name}:{key}": value for name, part in modules.items() for key, value in part.state_dict().items()}


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over named tensors, whatever their order and device."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()
