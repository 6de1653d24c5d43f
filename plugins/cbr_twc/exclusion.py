"""Which generated objects are too much like an object of the games that are measured.

This is the one place where names of those games are read for training. They do not leave it: what comes out is a
choice among generated objects, for `pool` alone, which a test sees to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cbr_twc.files import GameFiles
from cbr_twc.reading import load_game

PLURALS = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"))
"""Ending -> that of the singular, where it is one."""


def sharing_heads(objects: Iterable[str], games: Iterable[GameFiles]) -> frozenset[str]:
    """Those of the `objects` whose head noun is that of any object in the `games`, in singular or plural."""
    taken = {form for files in games for thing in load_game(files.json).things for form in head_forms(thing)}
    return frozenset(name for name in objects if taken & head_forms(name))


def head_forms(name: str) -> frozenset[str]:
    """What the head noun, the last word, may be in the singular, and itself: "wet t-shirts" -> shirts, shirt."""
    word = (re.findall(r"\w+", name.lower()) or [name])[-1]
    singulars = (word.removesuffix(end) + other for end, other in PLURALS if word.endswith(end) and word != end)
    return frozenset({word, *singulars})
