"""Every failure that a user can cause is a `CbrError`; the command line prints it without a traceback.

An error says what is wrong, where, and ends with what to type. Exit codes (README, "Exit codes"):
2 for wrong input (the default here), 1 for a run that failed, 130 for an interrupted run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class CbrError(Exception):
    """A failure that the user can mend.

    Args:
        message: what is wrong, naming the file, line or key.
        hint: what to type or change; printed on a line of its own.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  {self.hint}"


class RecipeError(CbrError):
    """One or more things are wrong with a recipe; `problems` holds one line each, sorted by line."""

    def __init__(self, problems: Sequence[str], *, hint: str | None = None) -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = tuple(problems)


class PluginError(CbrError):
    """A plugin cannot be loaded, or a name it registers is refused."""


class GameError(CbrError):
    """A game file or folder is missing, damaged or not supported."""


class ModelError(CbrError):
    """A text encoder, its files or its identity is not what the recipe asks for."""


class RunFolderError(CbrError):
    """A run folder is missing, in use, or does not fit the recipe."""


class RunFailed(CbrError):
    """The run itself failed (not the user's input); exit code 1."""

    exit_code = 1


class Interrupted(CbrError):
    """The user interrupted the run; a checkpoint was written; exit code 130."""

    exit_code = 130


def closest(name: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The choice that `name` most probably meant, or None. 1: equal."""
    found = difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return found[0] if found else None


def suggest(name: str, choices: Iterable[str]) -> str:
    """A sentence that helps: ``Did you mean 'vq'?``, or the list of what there is."""
    known = sorted(set(choices))
    best = closest(name, known)
    if best is not None:
        return f"Did you mean {best!r}?"
    return f"Choose one of: {', '.join(known)}." if known else "There is none."
