"""Names: of objects and rooms as the nodes of a graph, of directions, and which node an action's word means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

PLAYER = "you"
"""The node of the player, whatever the game calls it ("cretin", "yourself", "Goldilocks")."""

COMPASS = ("north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest", "up", "down")

_SHORT = {"n": "north", "s": "south", "e": "east", "w": "west", "ne": "northeast", "nw": "northwest"}
_SHORT |= {"se": "southeast", "sw": "southwest", "u": "up", "d": "down", "in": "enter", "out": "exit"}

DIRECTION_OF = {name: name for name in (*COMPASS, "enter", "exit")} | _SHORT
"""Movement command -> name of the direction."""

LONGEST_TITLE = 7
"""Words; a longer first line is no title."""

_ODD = re.compile(r"[^\w\s'&#-]+")


def direction_of(command: str) -> str | None:
    """The direction in which a command moves the player, None for other commands."""
    words = command.lower().split()
    if words[:1] in (["go"], ["walk"], ["run"]):
        words = words[1:]
    return DIRECTION_OF.get(words[0]) if len(words) == 1 else None


def node_name(text: str) -> str:
    """A name as a graph's node: lower case, single spaces, no ornament; "" if nothing is left.

    Names in brackets are the author's own notes, such as "(self object)"; no player ever reads them.
    """
    stripped = text.strip()
    if stripped.startswith("(") and stripped.endswith(")"):
        return ""
    return " ".join(_ODD.sub(" ", stripped.lower()).split()).strip(" -'")


def room_title(look: str) -> str:
    """The room's name as ``look`` prints it: its first line, less the remark in brackets ("Bedroom (in bed)") and
    what else stands in a status line, further to the right ("West of House    Score: 0"). "" if that is a sentence
    ("It is pitch black.")."""
    first = next((line.strip() for line in look.splitlines() if line.strip()), "")
    title = re.sub(r"\(.*?\)", " ", re.split(r"\s{2,}", first)[0]).strip()
    return "" if title.endswith((".", "!", "?")) or len(title.split()) > LONGEST_TITLE else node_name(title)


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Different nodes for things of one name: "maze", "maze 2", "maze 3", in the given order. "" stays ""."""
    taken: set[str] = {name for name in names if name}
    seen: dict[str, int] = {}
    result = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        unique = name
        while name and count > 1 and unique in taken:
            unique = f"{name} {count}"
            count += 1
        taken.add(unique)
        result.append(unique)
    return result


def which_node(word: str, aliases: Iterable[str], nodes: Mapping[str, str]) -> str:
    """The node that an action's entity means.

    Args:
        word: the entity, as the action says it ("lantern").
        aliases: other names that the game answers to in the same way ("brass lantern", "lamp").
        nodes: name of a thing in sight -> its node; the first of several things of one name.

    Returns:
        The node of that very name, else of an alias, else of a name that ends with the word, else of one that has
        it anywhere, else `word` itself. Ties go to the first in alphabetical order.
    """
    for name in (word, *sorted(aliases)):
        if name in nodes:
            return nodes[name]
    for has_word in (lambda words: words[-1] == word, lambda words: word in words):
        fitting = min((name for name in nodes if has_word(name.split())), default=None)
        if fitting is not None:
            return nodes[fitting]
    return word
