"""The commonsense graph of an episode: how it grows with what the agent sees.

A graph is a `StateGraph` whose nodes are concepts. The agent keeps it in its recurrent state, so that it is a
function of the observations alone; growing the same graph by the same observation is computed once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

from cbr_commonsense.files import game_id
from cbr_commonsense.linking import entities, link
from cbr_commonsense.triples import TripleBase
from cbrcore.types import Action, Observation, StateGraph, Triple

log = logging.getLogger(__name__)

EMPTY = StateGraph(())
"""The graph before anything was seen."""

PLACING = ("put {}", "insert {}")
"""How the templates of commands begin that put a thing somewhere."""

REMEMBERED = 1024
"""Steps whose graph is kept: an update asks again for those of the last steps."""


class CommonsenseGraph(Protocol):
    """A source of commonsense.

    `handicaps` says what it is, for the results.
    """

    handicaps: Mapping[str, Any]

    def grow(self, known: StateGraph, observation: Observation) -> StateGraph:
        """The graph after `observation`, when it was `known` before (`EMPTY` at the start of an episode)."""
        ...


class NoCommonsense:
    """The graph stays empty."""

    handicaps: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return "NoCommonsense()"

    def grow(self, known: StateGraph, observation: Observation) -> StateGraph:
        return EMPTY


class EvolvingGraph:
    """The concepts seen so far, linked as in a base of triples (direct connections, DC).

    Args:
        base: the triples.
        contextual: also link a thing that can be put somewhere with the places it can be put, where they are at
            most two steps apart in the base (contextual direct connections, CDC).
        name: of the source, for the results.
    """

    def __init__(self, base: TripleBase, *, contextual: bool, name: str) -> None:
        self.base = base
        self.contextual = contextual
        self.handicaps: Mapping[str, Any] = {"commonsense": name}
        self._concepts = lru_cache(None)(lambda entity: link(entity, base))
        self._grown = lru_cache(REMEMBERED)(self._grow)

    def __repr__(self) -> str:
        return f"EvolvingGraph({self.base!r}, contextual={self.contextual})"

    def grow(self, known: StateGraph, observation: Observation) -> StateGraph:
        pairs = frozenset(_placements(observation.admissible)) if self.contextual else frozenset()
        return self._grown(known, entities(observation), pairs)

    def _grow(self, known: StateGraph, seen: frozenset[str], pairs: frozenset[tuple[str, str]]) -> StateGraph:
        concepts = {concept for entity in seen for concept in self._concepts(entity)}
        triples = {*known.triples, *self._contextual(pairs)}
        if concepts.issubset(known.index) and triples.issubset(known.triples):
            return known
        nodes = concepts.union(known.nodes)
        return StateGraph.of([*triples, *self.base.between(nodes)], nodes)

    def _contextual(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Triple]:
        held = {concept for thing, _ in pairs for concept in self._concepts(thing)}
        for thing, place in pairs:
            for one in self._concepts(thing):
                for other in self._concepts(place):
                    if other not in held and self.base.near(one, other):
                        yield one, "relatedto", other


def _placements(actions: Iterable[Action]) -> Iterator[tuple[str, str]]:
    """(thing, place) of every command that puts a thing somewhere; in TWC: all that is held, all open places."""
    for action in actions:
        if action.template.startswith(PLACING) and len(action.entities) == 2:
            yield action.entities[0], action.entities[1]


class ManualGraphs:
    """A graph per game, written by hand with its goals in mind: an oracle. What was seen brings its neighbours.

    Args:
        bases: game id -> its triples.
        detail: "brief" or "complete", for the results.
    """

    def __init__(self, bases: Mapping[str, TripleBase], *, detail: str) -> None:
        self.bases = bases
        self.handicaps: Mapping[str, Any] = {
            "commonsense": f"graphs by hand ({detail}): an oracle, written with the goals known"
        }
        self._warned: set[str] = set()
        self._grown = lru_cache(REMEMBERED)(self._grow)

    def __repr__(self) -> str:
        return f"ManualGraphs({len(self.bases)} games)"

    def grow(self, known: StateGraph, observation: Observation) -> StateGraph:
        game = game_id(observation.game)
        if game not in self.bases and game not in self._warned:
            self._warned.add(game)
            log.warning("no commonsense graph was written for the game %r: it stays empty", observation.game)
        return self._grown(known, entities(observation), game) if game in self.bases else EMPTY

    def _grow(self, known: StateGraph, seen: frozenset[str], game: str) -> StateGraph:
        base = self.bases[game]
        found = {concept for entity in seen for concept in link(entity, base)}
        if found.issubset(known.index):
            return known
        nodes = found.union(known.nodes, *(base.around(concept) for concept in found))
        return StateGraph.of(base.between(nodes), nodes)
