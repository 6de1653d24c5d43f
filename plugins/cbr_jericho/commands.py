"""What may be sent to the interpreter: one command of the game, of bounded length, in plain characters."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from cbr_jericho.naming import COMPASS
from cbrcore.types import Action

LARGEST_COMMAND = 198
"""Bytes; the interpreter's buffer has 200 with the newline and the terminating zero [Jericho's `jericho.py`]."""

META_EVERYWHERE = frozenset(("save", "restore", "restart", "quit", "q", "undo", "again", "g", "oops"))
META_EVERYWHERE |= {"verbose", "brief", "superbrief", "version", "verify", "script", "unscript"}
META = META_EVERYWHERE | {"normal", "notify", "pronouns", "noscript", "transcript", "recording", "replay"}
META |= {"debug", "trace"}
"""Commands to the interpreter instead of moves in the game; `quit` and `restart` ask a question that would swallow
the next command. Those of `META_EVERYWHERE` are known to the earliest parsers too, by their first six letters."""

LOOK_AROUND = ("look", "inventory", *COMPASS)
"""Offered when the search for the valid actions failed."""

ANSWERS = ("no", "wait", "yes")
"""Offered when the search found nothing, as the DRRN family of agents does: the game probably asks something."""

_QUESTION = re.compile(
    r"(are you sure you want to|do you (really )?(want|wish) to)"
    r" (quit|restart|restore|leave the (game|story)|stop)"
    r"|\(y is affirmative\)|\bplease (answer|type) yes or no\b",
    re.IGNORECASE,
)


def clean_command(text: str) -> str:
    r"""One line of plain characters; "\" would start an escape of the interpreter."""
    printable = "".join(character if character.isprintable() and character != "\\" else " " for character in text)
    return " ".join(printable.split())


def shorten(command: str, limit: int = LARGEST_COMMAND) -> str:
    """`command` cut to at most `limit` bytes, between words if there is a space to cut at."""
    encoded = command.encode()
    if len(encoded) <= limit:
        return command
    kept = encoded[: limit + 1].decode(errors="ignore")
    return kept.rpartition(" ")[0].rstrip() or encoded[:limit].decode(errors="ignore")


def is_denied(command: str, denied: Collection[str]) -> bool:
    """Whether `command` is one of `denied`, or begins with one and goes on after a space."""
    words = command.lower().split()
    return any(" ".join(words[:count]) in denied for count in range(1, len(words) + 1))


def asks_to_leave(response: str) -> bool:
    """Whether the game waits for a yes or no before it ends or restarts. Questions of the story are not meant."""
    return _QUESTION.search(response[-200:]) is not None


def plain_actions(commands: Sequence[str], seeds: tuple[str, ...]) -> tuple[Action, ...]:
    """Object-free actions, sorted by text."""
    return tuple(Action(command, command, (), seeds) for command in sorted(commands))
