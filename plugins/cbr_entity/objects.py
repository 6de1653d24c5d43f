"""Where a trained retriever puts the objects of the games [P App. G, Fig. 6].

Asked of every context encoder that can say it and every environment that knows where things belong, whoever wrote
them: it is the ability that counts, not the name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cbr_report.runs import Group, Runs, by_place
from cbrcore import CbrError, Environment, KnowsPlaces, PlacesObjects
from cbrcore.runs import built

Places = Mapping[str, set[str]]
SEEN = ("train", "in")
"""Splits whose objects occur in training; the others hold unseen ones."""
PERPLEXITY, SEED = 10.0, 0


class Accuracy(Protocol):
    """Leave-one-out: does the most similar other object share a place?"""

    accuracy: float
    chance: float
    best: float


class Held(Protocol):
    """What an encoder says about objects, as `cbr_entity.held_out.HeldOut` does.

    Attributes:
        vectors: [n, d]; row i is names[i].
        retriever, text: of the vectors, and of the frozen text encodings.
    """

    names: tuple[str, ...]
    vectors: NDArray[np.float64]
    retriever: Accuracy
    text: Accuracy


@dataclass(frozen=True)
class ObjectMap:
    """The objects of one run's games on a plane.

    Attributes:
        points: [n, 2].
        places: of each object.
        unseen: the objects of the OUT games alone.
        accuracies: which objects -> vectors ("trained" ...) -> leave-one-out accuracy.
    """

    group: Group
    names: tuple[str, ...]
    points: NDArray[np.float64]
    places: Places
    unseen: frozenset[str]
    accuracies: Mapping[str, Mapping[str, float]]


def object_maps(runs: Runs) -> list[ObjectMap]:
    """One per place, of the first agent whose parts can say; what is in the way is noted."""
    found = []
    for _, same in by_place(runs.groups):
        for group in same:
            if _may_place_objects(group, runs):
                try:
                    made = object_map(group, runs)
                except CbrError as error:
                    runs.notes.append(f"{group.runs[0].path}: no map of the objects: {error.message}")
                    break
                except Exception as error:  # whatever a plugin's part does: a map must not cost the page
                    runs.notes.append(
                        f"{group.runs[0].path}: no map of the objects: {type(error).__name__}: {error}"
                    )
                    break
                if made is not None:
                    found.append(made)
                    break
    return found


def _may_place_objects(group: Group, runs: Runs) -> bool:
    """Whether the group's context encoder has the ability: a class tells, of a function the run must be opened."""
    if not group.uses_cases:
        return False
    try:
        component = runs.plugins.registry.find("context_encoder", str(group.settings.get("context_encoder.use")))
        factory = component.load_factory()
    except CbrError:  # a part that is not here any more; other sections tell
        return False
    return not inspect.isclass(factory) or issubclass(factory, PlacesObjects)


def object_map(group: Group, runs: Runs) -> ObjectMap | None:
    """The map of the group's first run; None if its context encoder has no vector for an object alone.

    Raises:
        CbrError: its checkpoint, games or text encoder are not here, or its environment does not know places.
    """
    with runs.opened(group.runs[0]) as opened:
        retriever = opened.parts.reasoner.retriever
        encoder = retriever.encoder if retriever else None
        if not isinstance(encoder, PlacesObjects):
            return None
        seen, unseen = _places(opened.parts.environment)
        fresh = built(opened.checked, runs.plugins)
        try:
            asked = {"objects of the training and IN games": seen, "objects of the OUT games": unseen}
            untrained = fresh.reasoner.retriever.encoder
            accuracies = {
                f"{title} ({len(places)})": _accuracies(encoder.held_out(places), untrained.held_out(places))
                for title, places in asked.items()
                if len(places) > 1
            }
        finally:
            fresh.close()
        everything = {**unseen, **seen}
        whole: Held = encoder.held_out(everything)
    return ObjectMap(
        group, whole.names, plane(whole.vectors), everything, frozenset(unseen.keys() - seen.keys()), accuracies
    )


def plane(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, 2]: t-SNE of the directions of vectors [n, d] (the retriever compares by cosine).

    Raises:
        CbrError: there are fewer than four, or they are not finite.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 4 or not np.isfinite(rows).all():
        raise CbrError(f"a map needs four or more finite vectors, got shape {rows.shape}")
    from sklearn.manifold import TSNE

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = rows / np.where(lengths > 0, lengths, 1.0)
    made = TSNE(perplexity=min(PERPLEXITY, (len(rows) - 1) / 3), init="random", random_state=SEED, method="exact")
    found: NDArray[np.float64] = made.fit_transform(units).astype(np.float64)
    return found


def _accuracies(trained: Held, untrained: Held) -> dict[str, float]:
    return {
        "trained": trained.retriever.accuracy,
        "untrained (fresh weights)": untrained.retriever.accuracy,
        "frozen text encoding": trained.text.accuracy,
        "chance": trained.text.chance,
        "best possible": trained.text.best,
    }


def _places(environment: Environment) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """(places of the objects in the training and IN games, of those in the OUT games)"""
    if not isinstance(environment, KnowsPlaces):
        raise CbrError("its environment does not tell where objects belong")
    seen: dict[str, set[str]] = {}
    unseen: dict[str, set[str]] = {}
    for split in environment.splits():
        told = seen if split in SEEN else unseen
        for name, places in environment.object_places(split).items():
            told.setdefault(name, set()).update(places)
    return seen, unseen
