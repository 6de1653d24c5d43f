"""Commonsense from a text encoder, for games that no triples were made for: similar names are linked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from cbr_commonsense.graphs import REMEMBERED
from cbr_commonsense.linking import NO_CONCEPTS, entities
from cbrcore.interfaces import TextEncoder
from cbrcore.types import Observation, StateGraph


class NearestNames:
    """Nodes are the names seen so far; an edge joins two whose vectors have a cosine above the threshold."""

    def __init__(self, encoder: TextEncoder, *, threshold: float) -> None:
        self.encoder = encoder
        self.threshold = threshold
        self.handicaps: Mapping[str, Any] = {
            "commonsense": f"names with a cosine above {threshold:g} in {encoder.identity}"
        }
        self._grown = lru_cache(REMEMBERED)(self._grow)

    def __repr__(self) -> str:
        return f"NearestNames(threshold={self.threshold})"

    def grow(self, known: StateGraph, observation: Observation) -> StateGraph:
        return self._grown(known, entities(observation) - NO_CONCEPTS)

    def _grow(self, known: StateGraph, seen: frozenset[str]) -> StateGraph:
        if seen.issubset(known.index):
            return known
        names = sorted(seen.union(known.nodes))
        vectors = torch.nn.functional.normalize(self.encoder.encode(names), dim=1)  # [N, dim]
        similar = torch.triu(vectors @ vectors.T > self.threshold, diagonal=1)  # [N, N]
        pairs = similar.nonzero().tolist()
        return StateGraph.of([(names[i], "relatedto", names[j]) for i, j in pairs], names)
