"""Does the retriever know where unseen things belong? Leave-one-out accuracy over the objects of a split.

"The retriever is therefore encouraged to map objects that should be placed in the same location to similar
representations. [...] This holds both for objects in the in-distribution games and for objects in the
out-of-distribution games" [P App. G]. The paper shows a t-SNE plot; this is the same claim as a number. Plain data
in, plain data out: no torch, no games.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbrcore import CbrError

SAME = 1e-9
"""Cosines no further apart than this are equal: two objects may have the same vector."""


@dataclass(frozen=True)
class LeaveOneOut:
    """What `leave_one_out` finds.

    Attributes:
        accuracy: mean over the objects of whether the most similar other object shares a place with it (of several
            equally similar ones: the share of them that does).
        chance: the same for another object drawn at random: the mean over the objects of the share of other
            objects with a common place.
        best: share of objects that have a place in common with any other; no accuracy is higher.
        nearest: object -> the other objects most similar to it; more than one only if they tie.
    """

    accuracy: float
    chance: float
    best: float
    nearest: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class HeldOut:
    """Objects in the retriever's space, and how well it and their bare names tell where they belong.

    Attributes:
        vectors: [n, d]; row i is names[i].
        retriever, text: leave-one-out of the retriever's vectors, and of the frozen text encodings.
    """

    names: tuple[str, ...]
    vectors: NDArray[np.float64]
    retriever: LeaveOneOut
    text: LeaveOneOut


def merge_places(goals: Iterable[tuple[str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    """object -> all its places, from the (object, places) of several games."""
    merged: dict[str, set[str]] = {}
    for name, places in goals:
        merged.setdefault(name, set()).update(places)
    return {name: frozenset(places) for name, places in merged.items()}


def leave_one_out(names: Sequence[str], places: Mapping[str, Collection[str]], vectors: ArrayLike) -> LeaveOneOut:
    """Leave-one-out accuracy of the nearest neighbour by cosine, and what chance gives.

    Args:
        names: n different objects, at least two.
        places: the goal locations of each of them; two objects agree if they have one in common.
        vectors: [n, d], finite; row i is names[i] in the retriever's space. A row of zeros has cosine 0 with all.

    Raises:
        CbrError: an argument is not like that.
    """
    rows = _checked(names, places, vectors)
    share = np.array([[not set(places[a]).isdisjoint(places[b]) for b in names] for a in names])  # [n, n]
    others = ~np.eye(len(names), dtype=bool)
    agrees = share & others
    nearest = _nearest(rows) & others  # [n, n], at least one per row
    return LeaveOneOut(
        accuracy=float(((agrees & nearest).sum(axis=1) / nearest.sum(axis=1)).mean()),
        chance=float(agrees.sum(axis=1).mean() / (len(names) - 1)),
        best=float(agrees.any(axis=1).mean()),
        nearest={
            name: tuple(names[other] for other in np.flatnonzero(row).tolist())
            for name, row in zip(names, nearest, strict=True)
        },
    )


def _nearest(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[n, n]: which other rows have the highest cosine with a row; ties are all marked."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)  # [n, 1]
    units = rows / np.where(lengths > 0, lengths, 1.0)
    cosines = units @ units.T  # [n, n]
    np.fill_diagonal(cosines, -np.inf)
    marked: NDArray[np.bool_] = cosines >= cosines.max(axis=1, keepdims=True) - SAME
    return marked


def _checked(
    names: Sequence[str], places: Mapping[str, Collection[str]], vectors: ArrayLike
) -> NDArray[np.float64]:
    """The vectors as an array, if all arguments are fit."""
    rows = np.asarray(vectors, dtype=np.float64)
    homeless = [name for name in names if not places.get(name)]
    if len(set(names)) != len(names) or len(names) < 2:
        raise CbrError(
            f"leave-one-out needs two or more different objects, got {list(names)}",
            hint="give each object once: merge the games' goals with merge_places",
        )
    if homeless:
        raise CbrError(f"no place is known for {homeless}", hint="leave out objects without a goal location")
    if rows.ndim != 2 or len(rows) != len(names) or not np.isfinite(rows).all():
        raise CbrError(
            f"leave-one-out needs a finite [{len(names)}, d] array of vectors, got shape {rows.shape}",
            hint="give one context per object: encoder.contexts_of_pairs, one row per name",
        )
    return rows
