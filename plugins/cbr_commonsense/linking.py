"""Entity linking: which concepts the name of a thing speaks of."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from cbrcore.types import Observation

LONGEST = 3
"""Words in the longest concept looked for, as in the public TPC."""

_NO_CONCEPTS = """
a all an and at by for from here in into it kind many me my of off on onto out over place some stuff that the there
thing this to under us way with you your yourself player exit open closed enter up down
north south east west northeast northwest southeast southwest
"""
NO_CONCEPTS = frozenset(_NO_CONCEPTS.split())
"""Words that name no thing: function words, directions, and what state graphs call the player, exits and doors."""

_WORD = re.compile(r"[a-z0-9]+")


def entities(observation: Observation) -> frozenset[str]:
    """The names of everything in sight: the nodes of the state graph, and what the commands speak of."""
    named = (name for action in observation.admissible for name in action.entities)
    return frozenset(observation.graph.nodes).union(named)


def link(name: str, concepts: Container[str]) -> tuple[str, ...]:
    """The longest word sequences in `name` that are concepts, words joined by "_".

    A sequence inside a longer one that is a concept is left out: "peanut butter jar" is about ``peanut_butter``
    and ``jar``, not about ``butter``. Plurals are tried in the singular.
    """
    words = _WORD.findall(name.lower())
    found: dict[str, range] = {}
    for size in range(min(LONGEST, len(words)), 0, -1):
        for start in range(len(words) - size + 1):
            inside = any(start in span and start + size - 1 in span for span in found.values())
            concept = None if inside else _concept(words[start : start + size], concepts)
            if concept is not None:
                found[concept] = range(start, start + size)
    return tuple(found)


def _concept(words: Sequence[str], concepts: Container[str]) -> str | None:
    for last in (words[-1], *_singulars(words[-1])):
        concept = "_".join([*words[:-1], last])
        if concept in concepts and concept not in NO_CONCEPTS:
            return concept
    return None


def _singulars(word: str) -> Iterator[str]:
    """What `word` may be the plural of; the concepts decide which of them is a word."""
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("ves"):
        yield word[:-3] + "f"
        yield word[:-3] + "fe"
    yield word[:-1]
    if word.endswith("es"):
        yield word[:-2]
