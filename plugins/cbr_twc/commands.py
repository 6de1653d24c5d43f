"""Commands <-> actions, and what the game reports about the actions that it carried out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from cbrcore.errors import GameError, suggest
from cbrcore.types import Action

ALONE = ("look", "inventory", "go north", "go south", "go east", "go west")
"""Commands without entities: the direction is a part of the template."""

PREPOSITIONS: dict[str, tuple[str, ...]] = {
    "take": ("from", ""),
    "drop": ("",),
    "put": ("on",),
    "insert": ("into",),
    "examine": ("",),
    "open": ("",),
    "close": ("",),
}
"""verb -> what can stand between its two entities; "" for a verb with one."""

_EVENT = re.compile(r"\[([^\]()]+) - succeeded\]")
_TRACE = re.compile(r"\[[^]]+\]\n?")
_STATUS_LINE = re.compile(r"\n> +-= [^\n]* =-\d+/\d+\s*\Z")
_GERUNDS = {"removing": "take", "taking": "take", "dropping": "drop", "putting": "put", "inserting": "insert"}
_GERUNDS |= {"opening": "open", "closing": "close", "going": "go", "examining": "examine", "looking": "look"}


def parse(command: str, names: Collection[str]) -> Action:
    """The command as template + entities.

    Args:
        command: in any case.
        names: what can be named in this game, in lower case.

    Raises:
        GameError: this is no command of TWC games, or it names something that the game does not have.
    """
    text = " ".join(command.lower().split())
    if text in ALONE:
        return Action(text, text)
    verb, _, rest = text.partition(" ")
    if verb not in PREPOSITIONS:
        verbs = sorted({*PREPOSITIONS, *(alone.split()[0] for alone in ALONE)})
        raise GameError(f"{command!r} is not a command of this game", hint=suggest(verb, verbs))
    for template, entities in _readings(verb, rest):
        if all(name in names for name in entities):
            return Action.from_template(template, entities)
    forms = " or ".join(
        f"{verb} X {preposition} Y" if preposition else f"{verb} X" for preposition in PREPOSITIONS[verb]
    )
    raise GameError(
        f"{command!r} does not name things of this game", hint=f"Write {forms}. {suggest(rest, names)}"
    )


def _readings(verb: str, rest: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every way to cut the command; a name may itself hold a preposition."""
    for preposition in PREPOSITIONS[verb]:
        if not preposition:
            yield f"{verb} {{}}", (rest,)
        for cut in re.finditer(f" {preposition} ", rest):
            yield f"{verb} {{}} {preposition} {{}}", (rest[: cut.start()], rest[cut.end() :])


def carried_out(answer: str) -> list[str]:
    """The commands that, by the game's own trace, were carried out.

    The games trace actions as ``[removing the plate from the table - succeeded]``.
    """
    commands = []
    for event in _EVENT.findall(answer):
        gerund, _, rest = event.lower().partition(" ")
        if event == "taking inventory":
            commands.append("inventory")
        elif gerund in _GERUNDS:
            commands.append(without_articles(f"{_GERUNDS[gerund]} {rest}"))
    return commands


def without_articles(command: str) -> str:
    """The game's trace names things with or without "the"."""
    return " ".join(word for word in command.split() if word != "the")


def without_trace(answer: str) -> str:
    """The answer as a player reads it.

    Besides the trace, jericho leaves prompt and status line in, unless the file's name begins with "tw-".
    """
    return _TRACE.sub("", _STATUS_LINE.sub("", answer)).strip()
