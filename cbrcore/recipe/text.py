"""YAML text -> documents: plain data, the place of every value, what is wrong with it. YAML's traps are closed.

``1e-4`` is a number; only ``true`` and ``false`` are booleans (``no`` stays a word); ``9:05`` and
``2024-01-01`` stay text; keys are always text; duplicate keys and tags are refused; merge keys work.

Values come from the text and from ``--set PATH=VALUE``; each remembers which, so that what is wrong names it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from cbrcore.errors import RecipeError, printable
from cbrcore.interfaces import Keys

MAX_VALUES = 20_000
"""More than any recipe holds; aliases of aliases can stand for billions."""


@dataclass(frozen=True)
class Flaw:
    """Something wrong: where (line from 1), what, and what to call the place if not by its line."""

    line: int
    keys: Keys
    message: str
    label: str = ""


@dataclass(frozen=True)
class Place:
    """Where a value stands: its key's line, how a plain scalar was typed, and a label as in `Flaw`."""

    line: int
    typed: str | None = None
    label: str = ""


@dataclass
class Document:
    """What a YAML text holds; `name` is what messages call it."""

    name: str = ""
    data: Any = None
    places: dict[Keys, Place] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)

    def note(self, keys: Keys, what: str, *, at: Keys | None = None) -> None:
        """Something is wrong with the value at `keys`, which was written there, or because of what stands `at`."""
        written = at or keys
        around = (written[:end] for end in range(len(written), -1, -1))
        self._add(next((self.places[part] for part in around if part in self.places), Place(1)), keys, what)

    def _add(self, place: Place, keys: Keys, what: str) -> None:
        self.flaws.append(Flaw(place.line, keys, what, place.label))

    def typed(self, keys: Keys) -> str | None:
        """The plain scalar at `keys` as it was typed: ``1.10`` for the number 1.1."""
        return self.places[keys].typed if keys in self.places else None

    def part(self, keys: Keys, name: str) -> Document:
        """The value at `keys` as a document of its own."""
        places = {known[len(keys) :]: at for known, at in self.places.items() if known[: len(keys)] == keys}
        return Document(name, copy.deepcopy(value_at(self.data, keys)), places)

    def put(self, keys: Keys, value: Document) -> None:
        """Set a value, making the sections on the way to it; its places are called as `value` is."""
        place = Place(max((known.line for known in self.places.values()), default=0) + 1, label=value.name)
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
                self.places[keys[:depth]] = place
            inner = inner[key]
        inner[keys[-1]] = value.data
        self.places = {known: at for known, at in self.places.items() if known[: len(keys)] != keys}
        self.places |= {keys + inside: replace(place, typed=at.typed) for inside, at in value.places.items()}

    def fail_if_wrong(self) -> None:
        """Raise all flaws as one `RecipeError`, sorted by line, as ``recipe.yaml:7: training.gamma: ...``."""
        found = {(f.line, f.label or f"{self.name}:{f.line}", dotted(f.keys), f.message) for f in self.flaws}
        lines = [": ".join(part for part in parts if part) for _, *parts in sorted(found)]
        if lines:
            raise RecipeError([printable(line) for line in lines])


def dotted(keys: Keys) -> str:
    """``evaluation.splits[1]``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def value_at(data: Any, keys: Keys) -> Any:
    """What nested `data` holds at `keys`; None if there is nothing."""
    for key in keys:
        if not holds(data, key):
            return None
        data = data[key]
    return data


def holds(data: Any, key: str | int) -> bool:
    """Whether `data` is a section or a list that has something at `key`."""
    if isinstance(data, list):
        return isinstance(key, int) and key < len(data)
    return isinstance(data, dict) and key in data


def parse(text: str, name: str = "") -> Document:
    """Read one YAML document; never raises for what the text holds, see `Document.flaws`."""
    document = Document(name)
    try:
        loader = _Loader(text.removeprefix("\ufeff"), document)
        node = loader.get_single_node()
        if node is not None:
            document.data = loader.value(node, (), _line(node))
    except yaml.MarkedYAMLError as error:
        document.flaws.append(_syntax_flaw(error))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.flaws.append(Flaw(line, (), f"holds a character that is not text: {chr(error.character)!r}"))
    except RecursionError:
        document.flaws.append(Flaw(1, (), "is nested too deeply"))
    return document


def parse_override(text: str) -> tuple[Keys, Document]:
    """The path and the value of one ``a.b=c``; the value is YAML under the same rules as in a recipe."""
    path, equals, value = text.partition("=")
    keys, label = tuple(path.strip().split(".")), f"--set {text}"
    if not equals or not all(keys):
        return (), Document(label, flaws=[Flaw(1, (), "write PATH=VALUE, as in --set training.gamma=0.95")])
    if not value.strip():
        said = f"has no value; write {path}=null, or {path}='' for no text"
        return keys, Document(label, flaws=[Flaw(1, (), said)])
    return keys, parse(value, label)


def dump(data: Any) -> str:
    """YAML text that `parse`, and any other YAML reader, reads back as `data`."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


# -- YAML by our rules -------------------------------------------------------------------------------------------

_TAG = "tag:yaml.org,2002:"
_WHOLE = r"[-+]?(?:0|[1-9][0-9_]{0,40})"
_EXPONENT = r"(?:[eE][-+]?[0-9]+)"
_PLAIN = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    "int": (_WHOLE, "-+0123456789"),
    "float": (
        rf"{_WHOLE}\.[0-9]*{_EXPONENT}?|[-+]?\.[0-9]+{_EXPONENT}?|{_WHOLE}{_EXPONENT}"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}
"""How plain (unquoted) scalars are read: kind -> (pattern, first characters). Everything else is text."""
_BROKEN = re.compile("[\ud800-\udfff]")
"""Half of a character, which only an escape can write; no file or terminal takes it."""
_WINDOWS_PATH = re.compile(r'"[A-Za-z]:\\[0abtnvfre]')
"""A drive and a letter that is an escape: "C:\\temp" has a tab in it. Whoever wants one writes \\x09."""


class _Loader(yaml.SafeLoader):
    """Text -> plain data, by our rules for plain scalars and without tags; fills the document."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's own interface); filled below

    def __init__(self, text: str, document: Document) -> None:
        super().__init__(text)
        self._places = document.places
        self._flaws = document.flaws
        self._open: list[yaml.Node] = []
        self._visited = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tag = getattr(event, "tag", None)
        if tag is not None:
            said = f"tags such as {tag.replace(_TAG, '!!')!r} are not allowed; write the value itself"
            raise yaml.MarkedYAMLError(problem=said, problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def value(self, node: yaml.Node, keys: Keys, line: int) -> Any:
        """The data of `node`, whose key stands in `line`."""
        self._count()
        if node in self._open:
            return self._flaw(node, keys, "an alias may not contain itself")
        self._open.append(node)
        found = self._built(node, keys, line)
        self._open.pop()
        return found

    def _count(self) -> None:
        self._visited += 1
        if self._visited > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem=f"holds more than {MAX_VALUES} values")

    def _built(self, node: yaml.Node, keys: Keys, line: int) -> Any:
        if isinstance(node, yaml.ScalarNode):
            self._places[keys] = Place(line, node.value if node.style is None else None)
            return self._scalar(node, keys)
        self._places[keys] = Place(line)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, i), _line(item)) for i, item in enumerate(node.value)]
        pairs = self._pairs(node, keys)
        return {key: self.value(item, (*keys, key), at) for key, (at, item) in pairs.items()}

    def _pairs(self, node: yaml.Node, keys: Keys) -> dict[str, tuple[int, yaml.Node]]:
        """key -> (line, value) of a mapping; merged ones last, where no own key hides them."""
        self._count()
        pairs: dict[str, tuple[int, yaml.Node]] = {}
        merged: dict[str, tuple[int, yaml.Node]] = {}
        for key_node, item in node.value:
            key, line = key_node.value, _line(key_node)
            if key_node.tag == _TAG + "merge":
                for source in self._sources(item, keys):
                    merged = merged | self._pairs(source, keys) | merged
            elif not isinstance(key_node, yaml.ScalarNode) or _BROKEN.search(key):
                self._flaw(key_node, keys, "a key must be plain text, not a list, a section or half a character")
            elif key in pairs:
                self._flaw(key_node, (*keys, key), f"is given twice, in lines {pairs[key][0]} and {line}")
            else:
                pairs[key] = (line, item)
        return pairs | merged | pairs

    def _sources(self, node: yaml.Node, keys: Keys) -> Iterator[yaml.MappingNode]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode) and source not in self._open:
                yield source
            else:
                self._flaw(source, keys, "'<<' takes the alias of another section, as in '<<: *name'")

    def _scalar(self, node: yaml.ScalarNode, keys: Keys) -> Any:
        text, mark = node.value, node.start_mark
        if _BROKEN.search(text):
            return self._flaw(node, keys, "holds half of a character (\\ud800 to \\udfff)")
        if node.style == '"' and _WINDOWS_PATH.match(mark.buffer or "", mark.pointer):
            return self._flaw(node, keys, r"a backslash in double quotes starts an escape; write 'C:\like\this'")
        value = self.construct_object(node)
        # 1e6 is a whole number to people; 1.0 stays a float, and so does what a float cannot hold exactly
        whole = isinstance(value, float) and "e" in text.lower() and abs(value) < 2**53 and value.is_integer()
        return int(value) if whole else value

    def _flaw(self, node: yaml.Node, keys: Keys, message: str) -> None:
        flaw = Flaw(_line(node), keys, message)
        if flaw not in self._flaws:  # a merged section is walked more than once
            self._flaws.append(flaw)


class _Dumper(yaml.SafeDumper):
    """Quotes what either YAML 1.1 or our own rules would not read as text."""

    # PyYAML's own interface; every other escape is written as \x09
    ESCAPE_REPLACEMENTS = {'"': '"', "\\": "\\"}  # type: ignore[misc]  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    rare_break = any(character in text for character in "\x85\u2028\u2029")  # PyYAML folds them unless escaped
    return dumper.represent_scalar(_TAG + "str", text, style='"' if rare_break else None)


_Loader.add_constructor(_TAG + "merge", lambda _, node: node.value)  # "<<" where it is no key
_Dumper.add_representer(str, _represent_text)
for _kind, (_pattern, _first) in _PLAIN.items():
    for _rules in (_Loader, _Dumper):
        _rules.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), list(_first))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_flaw(error: yaml.MarkedYAMLError) -> Flaw:
    mark = error.problem_mark or error.context_mark
    said = next((ours for theirs, ours in _SYNTAX.items() if theirs in str(error.problem)), str(error.problem))
    return Flaw(mark.line + 1, (), f"column {mark.column + 1}: {said}") if mark else Flaw(1, (), said)


_SYNTAX = {
    "character '\\t' that cannot start": "a tab may not indent YAML; use spaces",
    "unknown escape character": r"a backslash in double quotes starts an escape; write 'C:\like\this'",
    "but found another document": "a second document starts here ('---'); a recipe is one document",
    "mapping values are not allowed": "a ':' where none may stand; quote the text, or mind the indentation",
    "undefined alias": "this alias ('*name') has no anchor ('&name') before it",
}
"""PyYAML's words for frequent mistakes -> ours."""
