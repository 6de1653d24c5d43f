"""Texts as words and as sentences."""

from __future__ import annotations

import re
from functools import lru_cache

from cbr_nn.config import Unit

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
KNOWN = 4096
"""Texts that were split last, and are not split again: an update reads those of the steps before."""


@lru_cache(KNOWN)
def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower())) or (".",)


@lru_cache(KNOWN)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(piece for piece in _SENTENCE_END.split(text.strip()) if piece)) or ("",)


def words(text: str) -> list[str]:
    """Lower-case words and punctuation marks in order; a single "." for a text without any."""
    return list(_words(text))


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, each once, in order; [""] for an empty text."""
    return list(_sentences(text))


def pieces(text: str, unit: Unit) -> list[str]:
    """What a reader reads in one go."""
    return [text] if unit == "observation" else sentences(text)
