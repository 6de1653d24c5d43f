"""Descriptions of rooms and things, as the game prints them.

TextWorld writes them into the game's .json in Inform 7's notation: plain text with conditions (``[if c_0 is open
and there is something in the c_0] ... [end if]``) and lists (``[a list of things on the s_1]``).
The interpreter needs 3 to 5 ms to print one, more than for the command itself, so we print them here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol


class View(Protocol):
    """What a text may depend on."""

    @property
    def contents(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def open(self) -> frozenset[str]: ...


Condition = Callable[[View], bool]


@dataclass(frozen=True, slots=True)
class Listing:
    """``[a list of things on the s_1]``"""

    holder: str


@dataclass(frozen=True, slots=True)
class Choice:
    """``[if ...] ... [else if ...] ... [otherwise] ... [end if]``: the first branch whose condition holds."""

    branches: tuple[tuple[Condition, Text], ...]


Text = tuple["str | Listing | Choice", ...]

_TOKEN = re.compile(r"\[([^\]]*)\]")
_LISTING = re.compile(r"a list of things (?:in|on) the (\w+)")
_STATE = re.compile(r"(\w+) is (open|closed|locked)")
_FILLED = re.compile(r"there is (something|nothing) (?:in|on) the (\w+)|the (\w+) contains (nothing)")


def compile_text(source: str, names: Mapping[str, str]) -> Text:
    """Read a description.

    Args:
        source: the text in Inform 7's notation.
        names: entity id -> name.

    Raises:
        ValueError: a notation that TWC games do not use.
    """
    tokens = iter(enumerate(_TOKEN.split(_as_printed(source))))
    text, closing = _sequence(tokens, names)
    if closing:
        raise ValueError(f"[{closing}] without [if]")
    return text


def _as_printed(source: str) -> str:
    """Inform's own rules: a blank line is a paragraph break, a quote mark that is no apostrophe is doubled."""
    quoted = re.sub(r"(?<![A-Za-z0-9])'|'(?![A-Za-z0-9])", '"', source)
    return re.sub(r" *\n[ \n]*\n *", "\n\n", quoted)


def _sequence(tokens: Iterator[tuple[int, str]], names: Mapping[str, str]) -> tuple[Text, str]:
    """Pieces up to the substitution that ends this branch; that substitution, "" at the end of the text."""
    pieces: list[str | Listing | Choice] = []
    for position, token in tokens:
        if position % 2 == 0:  # re.split: text and substitutions take turns
            pieces += [token] if token else []
        elif token.startswith("if "):
            pieces.append(_choice(token, tokens, names))
        elif token in ("otherwise", "else", "end if") or token.startswith("else if "):
            return tuple(pieces), token
        elif match := _LISTING.fullmatch(token):
            pieces.append(Listing(names[match[1]]))
        else:
            raise ValueError(f"unknown substitution [{token}]")
    return tuple(pieces), ""


def _choice(opening: str, tokens: Iterator[tuple[int, str]], names: Mapping[str, str]) -> Choice:
    branches = []
    while opening != "end if":
        if not opening:
            raise ValueError("[if] without [end if]")
        condition = _condition(opening, names)
        text, opening = _sequence(tokens, names)
        branches.append((condition, text))
    return Choice(tuple(branches))


def _condition(opening: str, names: Mapping[str, str]) -> Condition:
    if opening in ("otherwise", "else"):
        return lambda view: True
    tests = [_test(part, names) for part in opening.removeprefix("else ").removeprefix("if ").split(" and ")]
    return reduce(_both, tests)


def _both(one: Condition, other: Condition) -> Condition:
    return lambda view: one(view) and other(view)


def _test(source: str, names: Mapping[str, str]) -> Condition:
    if match := _STATE.fullmatch(source):
        name = names[match[1]]
        return {
            "open": lambda view: name in view.open,
            "closed": lambda view: name not in view.open,
            "locked": lambda view: False,  # games with locks are refused when they are read
        }[match[2]]
    if match := _FILLED.fullmatch(source):
        holder = names[match[2] or match[3]]
        if match[1] == "something":
            return lambda view: bool(view.contents[holder])
        return lambda view: not view.contents[holder]
    raise ValueError(f"unknown condition {source!r}")


def print_text(text: Text, view: View, phrases: Mapping[str, str]) -> str:
    """The text as it reads now; `phrases` gives each object's name with its article."""
    printed: list[str] = []
    _print(text, view, phrases, printed)
    return "".join(printed)


def _print(text: Text, view: View, phrases: Mapping[str, str], printed: list[str]) -> None:
    for piece in text:
        if isinstance(piece, str):
            printed.append(piece)
        elif isinstance(piece, Listing):
            printed.append(enumerate_things(view.contents[piece.holder], phrases))
        else:
            for condition, branch in piece.branches:
                if condition(view):
                    _print(branch, view, phrases, printed)
                    break


def enumerate_things(things: Sequence[str], phrases: Mapping[str, str]) -> str:
    """``a plate, an apple and some milk``, in the given order."""
    words = [phrases[thing] for thing in things]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
