"""A recipe under examination: its data, where each value was written, and what is wrong so far.

Values come from the file and from ``--set PATH=VALUE``; each remembers which, so that a problem names it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cbrcore.errors import RecipeError
from cbrcore.interfaces import Keys
from cbrcore.recipe.text import Document, Flaw, Place, parse


@dataclass(frozen=True, order=True)
class Mark:
    """Where a value was written: ``recipe.yaml:7`` or ``--set training.gamma=2``."""

    order: int
    label: str
    typed: str | None = field(default=None, compare=False)


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong; prints as ``where: path: what``."""

    mark: Mark
    path: str
    what: str

    def __str__(self) -> str:
        line = ": ".join(part for part in (self.mark.label, self.path, self.what) if part)
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


@dataclass(frozen=True)
class Override:
    """A parsed ``--set PATH=VALUE``. What is wrong with it is in the flaws of its value."""

    keys: Keys
    value: Document
    label: str

    @property
    def rank(self) -> tuple[int, bool]:
        """Sections come before what is in them, and ``use`` before the other settings of its part."""
        return len(self.keys), self.keys[-1:] != ("use",)


class Draft:
    """Mutable while the recipe is read; `problems` gathers everything that is wrong."""

    def __init__(self, name: str, document: Document) -> None:
        self.name = name
        self.data: Any = document.data
        self.problems: list[Problem] = []
        self._marks = {
            keys: Mark(place.line, f"{name}:{place.line}", place.typed) for keys, place in document.places.items()
        }
        for flaw in document.flaws:
            self._add(Mark(flaw.line, f"{name}:{flaw.line}"), flaw.keys, flaw.message)

    def __repr__(self) -> str:
        return f"Draft({self.name!r}, {len(self.problems)} problems)"

    def note(self, keys: Keys, what: str, *, at: Keys | None = None) -> None:
        """Something is wrong with the value at `keys`, which was written there, or because of what stands `at`."""
        self._add(self.mark(keys if at is None else at), keys, what)

    def mark(self, keys: Keys) -> Mark:
        """Where the value at `keys` was written, or else the section around it."""
        for end in range(len(keys), -1, -1):
            if keys[:end] in self._marks:
                return self._marks[keys[:end]]
        return Mark(1, f"{self.name}:1")

    def typed(self, keys: Keys) -> str | None:
        """The plain scalar at `keys` as it was typed: ``1.10`` for the number 1.1."""
        return self._marks[keys].typed if keys in self._marks else None

    def put(self, override: Override) -> None:
        """Set a value, making the sections on the way to it."""
        keys, value = override.keys, override.value
        mark = Mark(max((known.order for known in self._marks.values()), default=0) + 1, override.label)
        for flaw in value.flaws:
            self._add(mark, keys + flaw.keys if flaw.keys else (), flaw.message)
        if value.flaws:
            return
        inner = self.data
        for depth, key in enumerate(keys[:-1], start=1):
            if isinstance(inner.get(key), list):
                self._add(mark, keys, f"{dotted(keys[:depth])!r} is a list; set the whole list")
                return
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
                self._marks[keys[:depth]] = mark
            inner = inner[key]
        inner[keys[-1]] = value.data
        self._forget(keys)
        for inside, place in value.places.items():
            self._marks[keys + inside] = Mark(mark.order, mark.label, place.typed)

    def keep_only(self, section: Keys, key: str) -> None:
        """Drop everything in a section but one key."""
        inner = value_at(self.data, section)
        for other in [other for other in inner if other != key]:
            del inner[other]
        self._forget(section, but=(*section, key))

    def document_at(self, keys: Keys) -> Document:
        """The value at `keys` as a document of its own."""
        places = {
            known[len(keys) :]: Place(mark.order, mark.typed)
            for known, mark in self._marks.items()
            if known[: len(keys)] == keys
        }
        return Document(copy.deepcopy(value_at(self.data, keys)), places)

    def trial(self, without: str) -> Draft:
        """A copy without problems and without this section, to try values on."""
        data = {key: value for key, value in self.data.items() if key != without}
        other = Draft(self.name, Document(copy.deepcopy(data)))
        other._marks = dict(self._marks)
        return other

    def fail_if_wrong(self) -> None:
        """Raise all problems as one `RecipeError`, sorted by line."""
        if self.problems:
            raise RecipeError([str(problem) for problem in sorted(set(self.problems))])

    def _forget(self, keys: Keys, but: Keys | None = None) -> None:
        for known in list(self._marks):
            if known[: len(keys)] == keys and known not in (keys, but):
                del self._marks[known]

    def _add(self, mark: Mark, keys: Keys, what: str) -> None:
        self.problems.append(Problem(mark, dotted(keys), what))


def dotted(keys: Keys) -> str:
    """``evaluation.splits[1]``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def value_at(data: Any, keys: Keys) -> Any:
    """What nested `data` holds at `keys`; None if there is nothing."""
    for key in keys:
        inside = isinstance(data, list) and isinstance(key, int) and key < len(data)
        if not inside and not (isinstance(data, dict) and key in data):
            return None
        data = data[key]
    return data


def parse_overrides(texts: Sequence[str]) -> list[Override]:
    """``a.b=c`` texts; their order does not matter, except that the last one wins for the same path."""
    return sorted(map(_parse_override, texts), key=lambda override: override.rank)


def _parse_override(text: str) -> Override:
    """One ``a.b=c``; the value is YAML under the same rules as in a recipe."""
    path, equals, value = text.partition("=")
    keys, label = tuple(path.strip().split(".")), f"--set {text}"
    if not equals or not all(keys):
        return Override((), _flawed("write PATH=VALUE, as in --set training.gamma=0.95"), label)
    if not value.strip():
        return Override(keys, _flawed(f"has no value; write {path}=null, or {path}='' for no text"), label)
    return Override(keys, parse(value), label)


def _flawed(message: str) -> Document:
    return Document(flaws=[Flaw(1, (), message)])
