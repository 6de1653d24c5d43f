"""What the explorer keeps of an observation."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable
from typing import NamedTuple

from cbrcore.interfaces import Places
from cbrcore.types import Observation

ReadsPlaces = Callable[[Observation], Places]
SENTENCE = re.compile(r"[.!?\n]+")


class Scene(NamedTuple):
    """Where the player is, and with what.

    Attributes:
        world: equal for equal worlds; with the score it is the key of a case.
        view: equal where the same surrounds the player.
        carried: the things that are carried.
    """

    world: str
    view: str
    room: str
    carried: frozenset[str]

    @property
    def load(self) -> str:
        """The things carried, as one name."""
        return ", ".join(sorted(self.carried))


def read_scene(seen: Observation, places: ReadsPlaces | None = None) -> Scene:
    """The scene of an observation. Where the environment tells no fingerprint, the texts stand for the view, and
    these with the state graph for the world. Where it tells no places, the first line of the description is the
    room, and the lines of the inventory are what is carried."""
    if seen.fingerprint is not None:
        world, view = seen.fingerprint.world, seen.fingerprint.view
    else:
        view = _digest(f"{seen.description}\n{seen.inventory}")
        world = _digest(f"{view} {seen.graph}")
    if places is None:
        lines = (line.strip() for line in seen.description.splitlines())
        carried = (line.strip() for line in seen.inventory.splitlines())
        return Scene(world, view, next(filter(None, lines), ""), frozenset(filter(None, carried)))
    found = places(seen)
    held = (thing for thing, place in found.where.items() if place == found.player)
    return Scene(world, view, found.here, frozenset(held))


def sentences(text: str) -> set[int]:
    """Checksums of the sentences of a text."""
    return {zlib.crc32(sentence.strip().encode()) for sentence in SENTENCE.split(text) if sentence.strip()}


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
