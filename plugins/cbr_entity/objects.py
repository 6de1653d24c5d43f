"""Where a trained retriever puts the objects of the games [P App. G, Fig. 6].

Asked of encoders that can say it (`held_out(places)`, as `cbr_entity/entity` has it) and environments that know
where things belong (`object_places(split)`, as `cbr_twc/twc` has it).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbrcore.errors import CbrError
from cbrcore.plugins import PluginReport
from cbrcore.report.results import by_place
from cbrcore.report.runs import Group
from cbrcore.report.tables import Table, columns, number, text_columns
from cbrcore.report.tsne import tsne

ENCODERS = ("cbr_entity/entity",)
"""Context encoders that give an object a vector of its own."""

Places = Mapping[str, Collection[str]]


class Accuracy(Protocol):
    """Leave-one-out: does the most similar other object share a place?"""

    accuracy: float
    chance: float
    best: float


class HeldOut(Protocol):
    """What an encoder says about objects."""

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


def object_maps(groups: Sequence[Group], plugins: PluginReport, notes: list[str]) -> list[ObjectMap]:
    """One per place, of the first run of an agent with such an encoder; what is in the way is noted."""
    found = []
    for _, same in by_place(groups):
        fitting = [group for group in same if group.settings.get("context_encoder.use") in ENCODERS]
        for group in fitting[:1]:
            try:
                found.append(object_map(group, plugins))
            except CbrError as error:
                notes.append(f"{group.runs[0].path}: no map of the objects: {error.message}")
    return found


def object_map(group: Group, plugins: PluginReport) -> ObjectMap:
    """The map of the group's first run.

    Raises:
        CbrError: its checkpoint, games or text encoder are not here, or its parts cannot say.
    """
    from cbrcore.assemble import assemble  # torch is loaded for a run that has such a map, not for every page
    from cbrcore.trained import trained

    with trained(group.runs[0].path, plugins) as opened:
        seen, unseen = _places(opened.parts.environment)
        encoder = _encoder(opened.parts)
        fresh = assemble(opened.recipe, plugins.registry, recipe_dir=opened.recipe.directory)
        try:
            untrained = _encoder(fresh)
            asked = {"objects of the training and IN games": seen, "objects of the OUT games": unseen}
            accuracies = {
                f"{title} ({len(places)})": _accuracies(encoder.held_out(places), untrained.held_out(places))
                for title, places in asked.items()
            }
        finally:
            fresh.close()
        everything = {**unseen, **seen}
        whole: HeldOut = encoder.held_out(everything)
    lengths = np.linalg.norm(whole.vectors, axis=1, keepdims=True)
    units = whole.vectors / np.where(lengths > 0, lengths, 1.0)  # the retriever compares by cosine
    return ObjectMap(
        group, whole.names, tsne(units), everything, frozenset(unseen.keys() - seen.keys()), accuracies
    )


def _accuracies(trained_: HeldOut, untrained: HeldOut) -> dict[str, float]:
    return {
        "trained": trained_.retriever.accuracy,
        "untrained (fresh weights)": untrained.retriever.accuracy,
        "frozen text encoding": trained_.text.accuracy,
        "chance": trained_.text.chance,
        "best possible": trained_.text.best,
    }


def _places(environment: Any) -> tuple[dict[str, Collection[str]], dict[str, Collection[str]]]:
    """(places of the objects in the training and IN games, of those in the OUT games)"""
    ask = getattr(environment, "object_places", None)
    if ask is None:
        raise CbrError("its environment does not tell where objects belong")
    seen: dict[str, set[str]] = {}
    for split in ("train", "in"):
        for name, places in ask(split).items():
            seen.setdefault(name, set()).update(places)
    return dict(seen), dict(ask("out"))


def _encoder(parts: Any) -> Any:
    encoder = parts.reasoner.retriever.encoder if parts.reasoner.retriever else None
    if not hasattr(encoder, "held_out"):
        raise CbrError("its context encoder has no vector for an object alone")
    return encoder


def object_table(maps: Sequence[ObjectMap]) -> list[Table]:
    """Leave-one-out accuracies of all maps."""
    if not maps:
        return []
    kinds = list(next(iter(maps[0].accuracies.values())))
    rows = tuple(
        (each.group.place, each.group.agent, title, *(number(found.get(kind), 2) for kind in kinds))
        for each in maps
        for title, found in each.accuracies.items()
    )
    return [
        Table(
            "objects",
            "Does the retriever know where things belong?",
            (*text_columns("Games", "Agent", "Objects"), *columns(kinds)),
            rows,
            note="Leave-one-out accuracy: the share of objects whose most similar other object belongs to the same"
            " place. Names alone tell a lot, so the trained row is to be compared with the frozen text encoding.",
        )
    ]
