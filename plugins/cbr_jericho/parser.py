"""How a game's own parser cuts a line: into words, into commands, and which of them speak to the interpreter.

What the game would do is not tried out, but told from its dictionary: its separators, the letters of a word that
count, and its verbs [Z-Machine Standards Document 1.1, section 13].
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cbr_jericho.commands import META, META_EVERYWHERE, is_denied, shorten
from cbr_jericho.naming import DIRECTION_OF

LINKS = (",", "and")
"""Between things, or between commands: then a verb follows."""
QUOTE = '"'
STOPS = ".;!?"
"""End a command; some games look for them themselves, without having them among their separators."""
SPEECH = frozenset(
    ("say", "tell", "ask", "answer", "reply", "shout", "yell", "scream", "whisper", "speak", "talk")
)
SPEECH |= {"call", "incant", "type", "write", "enter", "scrawl"}
"""Verbs after which words may stand in quotes; elsewhere a quote ends a command."""
LETTERS = 9
"""That count, from version 4 on; 6 before."""
OOPS = "o"
"""Corrects the last command, which is then carried out again."""
PLEASE = frozenset(("please", "then", *LINKS))
"""Words that the games skip at the start of a command."""


@dataclass(frozen=True)
class Parser:
    """The parser of one game.

    Attributes:
        separators: characters that are words of their own.
        letters: how many letters of a word count.
        verbs: that a command may start with, cut to `letters`, as `meta` is.
        meta: verbs that the game itself marks as no moves.
        denied: commands that are refused besides, in lower case.
    """

    separators: str
    letters: int
    verbs: frozenset[str]
    meta: frozenset[str]
    denied: frozenset[str] = frozenset()

    @classmethod
    def of(cls, vocabulary: Mapping[str, Any], denied: Collection[str]) -> Parser:
        """From what `Engine.vocabulary` says."""
        verbs, meta = (frozenset(vocabulary[name]) for name in ("verbs", "meta"))
        return cls(vocabulary["separators"], vocabulary["letters"], verbs, meta, frozenset(denied))

    def words(self, line: str) -> list[str]:
        """The words of a line, in lower case, whole."""
        return [found.group().lower() for found in self._word.finditer(line)]

    def fit(self, line: str, most_bytes: int, most_words: int | None) -> str:
        """As much of a line as the game has room for, cut between words if it can be."""
        line = shorten(line, most_bytes)
        ends = [found.end() for found in self._word.finditer(line)]
        return line[: ends[most_words - 1]] if most_words and len(ends) > most_words else line

    def is_several(self, line: str, things: Collection[str] = ()) -> bool:
        """Whether the game would take the line for more than one command ("look. inventory", "take key, go up").

        Args:
            things: names of what is in sight: "take lamp and light" names two things where there is a light.
        """
        return self._are_several(self._bare(self.words(line)), things)

    def is_refused(self, line: str) -> bool:
        """Whether the line speaks to the interpreter, or is denied; to whomever it is addressed ("bob, quit")."""
        words = self._bare(self.words(line))
        while words:
            if self._is_meta(words[0]) or is_denied(" ".join(words), self.denied):
                return True
            words = self._bare(words[self._speech(words) :])
        return False

    def _are_several(self, words: Sequence[str], things: Collection[str]) -> bool:
        if any(word in self._ends for word in words):
            return True
        if QUOTE in words and (words[0] not in SPEECH or words.count(QUOTE) > 2):
            return True
        if said := self._bare([word for word in words[self._speech(words) :] if word != QUOTE]):
            return self._are_several(said, things)
        later = [self._bare(words[place:]) for place, word in enumerate(words) if word in LINKS]
        return any(self._is_command(rest, things) for rest in later)

    def _speech(self, words: Sequence[str]) -> int:
        """Where the words begin that are said to somebody, in quotes or after a name and a comma; else the end."""
        if QUOTE in words:
            return words.index(QUOTE) + 1
        return words.index(",") + 1 if "," in words and not self._acts(words[0]) else len(words)

    def _is_command(self, rest: Sequence[str], things: Collection[str]) -> bool:
        """Whether what follows a link is a command, and not one more thing."""
        if not rest or not self._acts(rest[0]):
            return False
        if rest[0] in DIRECTION_OF:  # some games have things of these names
            return True
        end = next((place for place, word in enumerate(rest) if word in LINKS), len(rest))
        return " ".join(rest[:end]) not in things

    def _acts(self, word: str) -> bool:
        """Whether a command may start with the word."""
        return word in DIRECTION_OF or word[: self.letters] in self.verbs or self._is_meta(word)

    def _is_meta(self, word: str) -> bool:
        cut = word[: self.letters]
        return word in (*META, OOPS) or cut in self.meta or cut in self._everywhere or not word[0].isalnum()

    def _bare(self, words: Sequence[str]) -> list[str]:
        """Without what the games skip at the start, and full stops at the end."""
        first, last = 0, len(words)
        while first < last and words[first] in PLEASE:
            first += 1
        while last > first and words[last - 1] in (*self._ends, *LINKS, QUOTE):
            last -= 1
        return list(words[first:last])

    @cached_property
    def _everywhere(self) -> frozenset[str]:
        known = META_EVERYWHERE if self.letters < LETTERS else META
        return frozenset(word[: self.letters] for word in known)

    @cached_property
    def _ends(self) -> frozenset[str]:
        """Words that end a command."""
        return frozenset((*self.separators, *STOPS, "then")) - {*LINKS, QUOTE}

    @cached_property
    def _word(self) -> re.Pattern[str]:
        marks = re.escape("".join(sorted({*self.separators, *STOPS, ",", QUOTE})))
        return re.compile(rf"[{marks}]|[^\s{marks}]+")
