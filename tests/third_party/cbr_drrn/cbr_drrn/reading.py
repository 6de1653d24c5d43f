"""What the network reads of a step: three texts and actions, as numbers of words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cbrcore import Observation

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[^\w\s]")
EMPTY = (0,)
"""Of a text without words."""


class Reading(NamedTuple):
    """A state with the actions that are asked about."""

    feedback: str
    description: str
    inventory: str
    actions: tuple[str, ...]


def reading(observation: Observation, actions: Sequence[str] | None = None) -> Reading:
    """Of an observation with its admissible actions, or these."""
    asked = [action.text for action in observation.admissible] if actions is None else actions
    return Reading(observation.feedback, observation.description, observation.inventory, tuple(asked))


@lru_cache(8192)
def numbers(text: str, buckets: int, longest: int) -> tuple[int, ...]:
    """1 + the bucket of each word or punctuation mark, of the last `longest` ones; (0,) where there is none.

    The same on every machine.
    """
    words = WORD.findall(text.lower())[-longest:]
    return tuple(1 + zlib.crc32(word.encode()) % buckets for word in words) or EMPTY
