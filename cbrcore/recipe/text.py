"""YAML text -> plain data and the place of every value, with YAML's traps closed. Knows nothing of recipes.

``1e-4`` is a number; only ``true`` and ``false`` are booleans (``no`` stays a word); ``9:05`` and
``2024-01-01`` stay text; keys are always text; duplicate keys and tags are refused; merge keys work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from cbrcore.interfaces import Keys

MAX_VALUES = 20_000
"""More than any recipe holds; aliases of aliases can stand for billions."""

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


@dataclass(frozen=True)
class Flaw:
    """Something wrong with the text itself: where (line from 1) and what."""

    line: int
    keys: Keys
    message: str


@dataclass(frozen=True)
class Place:
    """Where a value stands: its key's line, how a plain scalar was typed, and what to call the place."""

    line: int
    typed: str | None = None
    label: str = ""


@dataclass
class Document:
    """What a YAML text holds."""

    data: Any = None
    places: dict[Keys, Place] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)


def parse(text: str) -> Document:
    """Read one YAML document; never raises for what the text holds, see `Document.flaws`."""
    document = Document()
    try:
        node = _Composer(text.removeprefix("\ufeff")).get_single_node()
        if node is not None:
            document.data = _Builder(document).value(node, (), _line(node))
    except yaml.MarkedYAMLError as error:
        document.flaws.append(_syntax_flaw(error))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.flaws.append(Flaw(line, (), f"holds a character that is not text: {chr(error.character)!r}"))
    except RecursionError:
        document.flaws.append(Flaw(1, (), "is nested too deeply"))
    except _TooMuch:
        document.flaws.append(Flaw(1, (), f"holds more than {MAX_VALUES} values"))
    return document


def dump(data: Any) -> str:
    """YAML text that `parse`, and any other YAML reader, reads back as `data`."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _TooMuch(Exception):
    pass


class _Composer(yaml.SafeLoader):
    """Text -> nodes, by our rules for plain scalars and without tags."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML's own interface); filled below

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tag = getattr(event, "tag", None)
        if tag is not None:
            shown = tag.replace(_TAG, "!!")
            raise yaml.MarkedYAMLError(
                problem=f"tags such as {shown!r} are not allowed; write the value itself",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes what either YAML 1.1 or our own rules would not read as text."""

    # PyYAML's own interface; every other escape is written as \x09
    ESCAPE_REPLACEMENTS = {'"': '"', "\\": "\\"}  # type: ignore[misc]  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    rare_break = any(character in text for character in "\x85\u2028\u2029")  # PyYAML folds them unless escaped
    return dumper.represent_scalar(_TAG + "str", text, style='"' if rare_break else None)


_Dumper.add_representer(str, _represent_text)
for _kind, (_pattern, _first) in _PLAIN.items():
    for _rules in (_Composer, _Dumper):
        _rules.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), list(_first))


class _Builder:
    """Nodes -> plain data; notes places and flaws in the document."""

    def __init__(self, document: Document) -> None:
        self._places = document.places
        self._flaws = document.flaws
        self._open: list[yaml.Node] = []
        self._visited = 0

    def value(self, node: yaml.Node, keys: Keys, line: int) -> Any:
        """The data of `node`, whose key stands in `line`."""
        self._count()
        if any(node is outer for outer in self._open):
            return self._flaw(node, keys, "an alias may not contain itself")
        self._open.append(node)
        try:
            return self._built(node, keys, line)
        finally:
            self._open.pop()

    def _count(self) -> None:
        self._visited += 1
        if self._visited > MAX_VALUES:
            raise _TooMuch

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
        merged: list[dict[str, tuple[int, yaml.Node]]] = []
        for key_node, item in node.value:
            key, line = key_node.value, _line(key_node)
            if key_node.tag == _TAG + "merge":
                merged += [self._pairs(source, keys) for source in self._sources(item, keys)]
            elif not isinstance(key_node, yaml.ScalarNode) or _BROKEN.search(key):
                self._flaw(key_node, keys, "a key must be plain text, not a list, a section or half a character")
            elif key in pairs:
                self._flaw(key_node, (*keys, key), f"is given twice, in lines {pairs[key][0]} and {line}")
            else:
                pairs[key] = (line, item)
        for source in merged:
            pairs = pairs | {key: pair for key, pair in source.items() if key not in pairs}
        return pairs

    def _sources(self, node: yaml.Node, keys: Keys) -> Iterator[yaml.MappingNode]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode) and not any(source is outer for outer in self._open):
                yield source
            else:
                self._flaw(source, keys, "'<<' takes the alias of another section, as in '<<: *name'")

    def _scalar(self, node: yaml.ScalarNode, keys: Keys) -> Any:
        kind, text = node.tag.removeprefix(_TAG), node.value
        if kind == "int":
            return int(text.replace("_", ""))
        if kind == "float":
            return _float(text.replace("_", ""))
        if kind in ("bool", "null"):
            return text.lower() == "true" if kind == "bool" else None
        return self._text(node, keys)

    def _text(self, node: yaml.ScalarNode, keys: Keys) -> Any:
        text: str = node.value
        if _BROKEN.search(text):
            return self._flaw(node, keys, "holds half of a character (\\ud800 to \\udfff)")
        if node.style == '"' and _WINDOWS_PATH.match(_source(node)):
            return self._flaw(node, keys, r"a backslash in double quotes starts an escape; write 'C:\like\this'")
        return text

    def _flaw(self, node: yaml.Node, keys: Keys, message: str) -> None:
        flaw = Flaw(_line(node), keys, message)
        if flaw not in self._flaws:  # a merged section is walked more than once
            self._flaws.append(flaw)


_WINDOWS_PATH = re.compile(r'"[A-Za-z]:\\[0abtnvfre]')
"""A drive and a letter that is an escape: "C:\\temp" has a tab in it. Whoever wants one writes \\x09."""


def _source(node: yaml.Node) -> str:
    """How the scalar begins in the text."""
    mark = node.start_mark
    return str(mark.buffer or "")[mark.pointer : mark.pointer + 8]


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _float(text: str) -> float | int:
    """``1e6`` is a whole number to people; ``1.0`` stays a float, and so does what a float cannot hold exactly."""
    if text.lstrip("+-").lower() in (".inf", ".nan"):
        return float(text.replace(".", ""))
    value = float(text)
    exact = abs(value) < 2**53 and value.is_integer()
    return int(value) if "e" in text.lower() and exact else value


def _syntax_flaw(error: yaml.MarkedYAMLError) -> Flaw:
    mark = error.problem_mark or error.context_mark
    said = str(error.problem)
    where = f"column {mark.column + 1}: " if mark else ""
    for found, meaning in _SYNTAX.items():
        if found in said:
            said = meaning
    return Flaw(mark.line + 1 if mark else 1, (), where + said)


_SYNTAX = {
    "character '\\t' that cannot start": "a tab may not indent YAML; use spaces",
    "unknown escape character": r"a backslash in double quotes starts an escape; write 'C:\like\this'",
    "but found another document": "a second document starts here ('---'); a recipe is one document",
    "mapping values are not allowed": "a ':' where none may stand; quote the text, or mind the indentation",
    "undefined alias": "this alias ('*name') has no anchor ('&name') before it",
}
"""PyYAML's words for frequent mistakes -> ours."""
