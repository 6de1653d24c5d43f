"""A recipe under examination: its data, where each value was written, and what is wrong so far.

Values come from the file and from ``--set PATH=VALUE``; each remembers which, so that a problem names it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cbrcore.errors import RecipeError
from cbrcore.interfaces import Keys
from cbrcore.recipe.text import Document, Flaw, Place, parse


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong; prints as ``where: path: what``, as in ``recipe.yaml:7: training.gamma: ...``."""

    line: int
    label: str
    path: str
    what: str

    def __str__(self) -> str:
        line = ": ".join(part for part in (self.label, self.path, self.what) if part)
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

    def alone(self) -> Override:
        """The section around the value, with nothing else in it."""
        *around, last = self.keys
        places = {(): self.value.places[()]} | {(last, *keys): at for keys, at in self.value.places.items()}
        return Override(tuple(around), Document({last: self.value.data}, places), self.label)


class Draft:
    """Mutable while the recipe is read; `problems` gathers everything that is wrong."""

    def __init__(self, name: str, document: Document) -> None:
        self.name = name
        self.data: Any = document.data
        self.problems: list[Problem] = []
        self._places = dict(document.places)
        for flaw in document.flaws:
            self._add(Place(flaw.line), flaw.keys, flaw.message)

    def __repr__(self) -> str:
        return f"Draft({self.name!r}, {len(self.problems)} problems)"

    def note(self, keys: Keys, what: str, *, at: Keys | None = None) -> None:
        """Something is wrong with the value at `keys`, which was written there, or because of what stands `at`."""
        written = keys if at is None else at
        around = (written[:end] for end in range(len(written), -1, -1))
        self._add(next((self._places[part] for part in around if part in self._places), Place(1)), keys, what)

    def typed(self, keys: Keys) -> str | None:
        """The plain scalar at `keys` as it was typed: ``1.10`` for the number 1.1."""
        return self._places[keys].typed if keys in self._places else None

    def put(self, override: Override) -> None:
        """Set a value, making the sections on the way to it."""
        keys, value = override.keys, override.value
        place = Place(max((known.line for known in self._places.values()), default=0) + 1, label=override.label)
        for flaw in value.flaws:
            self._add(place, keys + flaw.keys if flaw.keys else (), flaw.message)
        if value.flaws:
            return
        inner = self.data
        for depth, key in enumerate(keys[:-1], start=1):
            if isinstance(inner.get(key), list):
                self._add(place, keys, f"{dotted(keys[:depth])!r} is a list; set the whole list")
                return
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
                self._places[keys[:depth]] = place
            inner = inner[key]
        inner[keys[-1]] = value.data
        self._places = {known: at for known, at in self._places.items() if known[: len(keys)] != keys}
        for inside, at in value.places.items():
            self._places[keys + inside] = replace(place, typed=at.typed)

    def document_at(self, keys: Keys) -> Document:
        """The value at `keys` as a document of its own."""
        count = len(keys)
        places = {known[count:]: place for known, place in self._places.items() if known[:count] == keys}
        return Document(copy.deepcopy(value_at(self.data, keys)), places)

    def trial(self, without: str) -> Draft:
        """A copy without problems and without this section, to try values on."""
        data = {key: value for key, value in self.data.items() if key != without}
        return Draft(self.name, Document(copy.deepcopy(data), self._places))

    def fail_if_wrong(self) -> None:
        """Raise all problems as one `RecipeError`, sorted by line."""
        if self.problems:
            raise RecipeError([str(problem) for problem in sorted(set(self.problems))])

    def _add(self, place: Place, keys: Keys, what: str) -> None:
        label = place.label or f"{self.name}:{place.line}"
        self.problems.append(Problem(place.line, label, dotted(keys), what))


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
