"""What goals are about, and which cases speak for which goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cbrcore.types import Action, Case, EntityTuple, arity

PAIR = 2
"""Entities of the goals of an object and a place."""


@dataclass(frozen=True)
class Kind:
    """Cases that speak for the same goals: all those of an object and a place together ("put {} on {}" and
    "insert {} into {}"); else those of one template.

    Attributes:
        pairs: whether it is the kind of an object and a place.
        templates: of its cases, sorted.
        rows: [r] of its cases; None for those of the whole memory.
        names: what its cases are about, each once, in the order of the cases.
    """

    pairs: bool
    templates: tuple[str, ...]
    rows: Tensor | None
    names: tuple[EntityTuple, ...] = ()


ALL = Kind(pairs=True, templates=(), rows=None)
"""All cases of a memory."""


def names_of(of: Action | Case) -> EntityTuple:
    """What an action is about: the things that its entities mean, where the environment tells one for each; of an
    action without entities its seeds: it is tied to the place where it is done."""
    return of.seeds if len(of.seeds) == len(of.entities) or not of.entities else of.entities


def kinds_of(cases: Sequence[Case], device: torch.device | str) -> tuple[Kind, ...]:
    """The kinds of these cases: objects and places first, then template by template."""
    pairs = [row for row, case in enumerate(cases) if arity(case.template) == PAIR]
    found = [_kind(cases, pairs, device, pairs=True)] if pairs else []
    by_template: dict[str, list[int]] = {}
    for row, case in enumerate(cases):
        by_template.setdefault(case.template, []).append(row)
    return (*found, *(_kind(cases, rows, device, pairs=False) for _, rows in sorted(by_template.items())))


def _kind(cases: Sequence[Case], rows: Sequence[int], device: torch.device | str, *, pairs: bool) -> Kind:
    templates = tuple(sorted({cases[row].template for row in rows}))
    among = None if len(rows) == len(cases) else torch.tensor(rows, device=device)
    return Kind(pairs, templates, among, tuple(dict.fromkeys(names_of(cases[row]) for row in rows)))
