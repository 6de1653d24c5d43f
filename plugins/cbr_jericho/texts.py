"""Triples from a game's texts, by rules over a dependency parse: the facts of the state graph `text`.

Lists ("You are carrying:" and lines of things) are read as lists; everything else is parsed, sentence by sentence.
A name is a noun with what stands before it ("brass lantern"), without articles. The player is "you"; other
pronouns name nothing, and a triple with such an end, or with one too long for a name, is dropped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from cbr_jericho.naming import COMPASS, PLAYER, node_name
from cbr_jericho.tagging import PRONOUNS, load_model
from cbrcore.types import Triple

HERE = "<here>"
"""Stands for the room until it is known."""

LONGEST_NAME = 4
"""Words; longer ones are half sentences."""

REMEMBERED_TEXTS = 20_000

PLAYER_WORDS = frozenset(("you", "yourself", "i", "me", "myself", "we", "us"))
SIGHT = frozenset(("see", "notice", "spot", "find", "spy"))
POSSESSION = frozenset(("have", "carry", "carrying", "hold", "holding", "wear", "wearing", "got"))
NAME_PARTS = frozenset(("amod", "compound", "nmod", "nummod", "poss", "case"))
SUBJECTS = frozenset(("nsubj", "nsubjpass"))
NOUNS = frozenset(("NOUN", "PROPN"))

_ARTICLE = re.compile(r"^(the|an?|some|your|\d+)\s+", re.IGNORECASE)
_HOLDS = re.compile(r"^(?P<who>[^,.;]+?)\s+(contains?|holds?|is|are|has|have|you see)\b.*:$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?]['\")]*$")


class Reading(NamedTuple):
    """What a text tells: its triples, and how many more were dropped."""

    triples: tuple[Triple, ...]
    dropped: int


class TextTriples:
    """Reads texts with the installed spaCy model.

    Attributes:
        dropped: triples that were left out since the start, counted once per different text.

    Raises:
        GameError: no model is installed.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._model = load_model(parser=True)
        self._read = lru_cache(maxsize=REMEMBERED_TEXTS)(self._read_new)

    def __repr__(self) -> str:
        return f"TextTriples({self._model.meta['name']!r}, {self.dropped} dropped)"

    def of(self, look: str, inventory: str, feedback: str, room: str) -> tuple[Triple, ...]:
        """What is told at one step.

        Args:
            look, inventory, feedback: the texts; the first line of `look` is the room's title if there is one.
            room: the room's node, "" if it has no name.
        """
        title = look.strip().partition("\n")[0] if room else ""
        texts = (text.strip().removeprefix(title) for text in (look, feedback))
        triples = [triple for text in (*texts, inventory) for triple in self._read(text.strip())]
        here = [(head, relation, room if tail == HERE else tail) for head, relation, tail in triples]
        return tuple(triple for triple in [(PLAYER, "in", room), *here] if triple[2])

    def _read_new(self, text: str) -> tuple[Triple, ...]:
        prose, listed = split_lists(text)
        told = read_prose(self._model(prose)) if prose else Reading((), 0)
        self.dropped += told.dropped
        return (*told.triples, *listed)


def split_lists(text: str) -> tuple[str, list[Triple]]:
    """The prose of a text, and the triples of its lists.

    A list is a line that ends with a colon ("You are carrying:", "The sack contains:") and the lines after it that
    are no sentences.
    """
    prose: list[str] = []
    listed: list[Triple] = []
    holder: Triple | None = None
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.endswith(":"):
            holder = _holder(line)
        elif holder is not None and not _SENTENCE_END.search(line):
            name = _item_name(line)
            listed.extend([_with_item(holder, name)] if _is_name(name) else [])
        else:
            holder = None
            prose.append(line)
    return " ".join(prose), listed


def _holder(line: str) -> Triple | None:
    """A triple with "" in the place of the listed thing; None if it is not clear what holds them."""
    words = line.lower().rstrip(":").split()
    if words and words[0] in PLAYER_WORDS:
        return ("", "in", HERE) if SIGHT.intersection(words) else (PLAYER, "have", "")
    found = _HOLDS.match(line)
    name = _item_name(found["who"]) if found else ""
    return ("", "in", name) if _is_name(name) else None


def _with_item(holder: Triple, name: str) -> Triple:
    head, relation, tail = holder
    return head or name, relation, tail or name


def _item_name(line: str) -> str:
    """A listed thing: without remark in brackets and article ("A brass lantern (providing light)")."""
    return node_name(_ARTICLE.sub("", re.sub(r"\(.*?\)", " ", line).strip()))


def _is_name(name: str) -> bool:
    return 0 < len(name.split()) <= LONGEST_NAME and name not in PLAYER_WORDS | PRONOUNS


def read_prose(doc: Any) -> Reading:
    """The triples of a parsed text (spaCy's `Doc`)."""
    named = [
        (_name(head), relation.lower(), _name(tail))
        for token in doc
        for head, relation, tail in (*_clause(token), *_phrase(token))
    ]
    kept = [(head, relation, tail) for head, relation, tail in named if head and tail and head != tail]
    return Reading(tuple(kept), len(named) - len(kept))


RawTriple = tuple[Any, str, Any]
"""As `Triple`, with spaCy's tokens in place of names."""


def _clause(verb: Any) -> Iterator[RawTriple]:
    """What a verb says of its subjects."""
    if verb.pos_ not in ("VERB", "AUX"):
        return
    by_role = {role: list(_members(verb, role)) for role in ("attr", "acomp", "dobj", "expl", "nsubjpass")}
    if by_role["expl"]:  # "there is a mailbox here"
        for thing in (*by_role["attr"], *_members(verb, *SUBJECTS)):
            yield thing, "in", HERE
            yield from _places(verb, thing)
        return
    for subject in _subjects(verb):
        for state in (*by_role["acomp"], *by_role["attr"]):
            yield subject, "is", state
        yield from _action(verb, subject, by_role["dobj"])
        if by_role["nsubjpass"]:
            yield from _passive(verb, subject)


def _action(verb: Any, subject: Any, objects: Iterable[Any]) -> Iterator[RawTriple]:
    """What the subject does to the objects, and where. What the player sees is in the room, and where it is."""
    word = verb.text.lower()
    sees = word in SIGHT and subject.text.lower() in PLAYER_WORDS
    located = list(objects) if sees else [subject]
    for thing in objects:
        yield (thing, "in", HERE) if sees else (subject, "have" if word in POSSESSION else word, thing)
    for thing in located:
        yield from _places(verb, thing)


def _passive(verb: Any, subject: Any) -> Iterator[RawTriple]:
    """ "The lamp was eaten by a grue" tells of the grue, "the box is closed" of the box."""
    agents = [doer for by in verb.children if by.dep_ == "agent" for doer in _members(by, "pobj")]
    for doer in agents:
        yield doer, verb.text, subject
    if not agents:
        yield subject, "is", verb


def _phrase(noun: Any) -> Iterator[RawTriple]:
    """What stands around a noun: its adjectives, and where it is."""
    if noun.pos_ in NOUNS and noun.dep_ != "advmod":
        for adjective in noun.children:
            if adjective.dep_ == "amod":
                yield noun, "is", adjective
        yield from _places(noun, noun)


def _places(token: Any, thing: Any) -> Iterator[RawTriple]:
    """`thing` is "on" what follows a preposition of `token`; also "west of" it."""
    for child in token.children:
        if child.dep_ == "prep":
            for place in _members(child, "pobj"):
                yield thing, child.text, place
        elif child.dep_ == "advmod" and child.text.lower() in COMPASS:
            for of in child.children:
                for place in _members(of, "pobj"):
                    yield thing, f"{child.text} {of.text}", place


def _subjects(verb: Any) -> list[Any]:
    """Of a verb without a subject of its own ("... and leads to the west"), that of the verb it is joined to."""
    found = list(_members(verb, *SUBJECTS))
    return found if found or verb.dep_ != "conj" else _subjects(verb.head)


def _members(token: Any, *roles: str) -> Iterator[Any]:
    """The children in one of the roles, and those joined to them ("a lamp, a rope and a sack")."""
    for child in token.children:
        if child.dep_ in roles:
            yield child
            yield from _members(child, "conj", "appos")


def _name(token: Any) -> str:
    """The node of a token; "" if it names nothing, or too much."""
    if isinstance(token, str):
        return token
    if token.pos_ == "PRON":
        return PLAYER if token.text.lower() in PLAYER_WORDS else ""
    name = node_name("".join(word.text_with_ws for word in sorted(_name_words(token), key=lambda word: word.i)))
    return name if _is_name(name) else ""


def _name_words(token: Any) -> Iterator[Any]:
    yield token
    for child in token.lefts:
        if child.dep_ in NAME_PARTS and child.pos_ != "PRON":
            yield from _name_words(child)
        elif child.dep_ == "punct" and child.text == "-":
            yield child
    if token.dep_ == "poss":
        yield from (child for child in token.rights if child.dep_ == "case")
