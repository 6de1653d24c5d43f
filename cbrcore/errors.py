"""Every failure that a user can cause is a `CbrError`; the command line prints it without a traceback.

An error says what is wrong, where, and ends with what to type. Exit codes (docs/commands.md):
2 for wrong input (the default here), 1 for a run that failed, 130 for an interrupted run.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import shutil
import unicodedata
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


# -- what the operating system refuses ---------------------------------------------------------------------------

_FULL = (errno.ENOSPC, errno.EDQUOT)
_MEND = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "see to the permissions there, or name another place"),
    errno.EROFS: "it can only be read there; name another place",
    **dict.fromkeys(_FULL, "make room there, or name another place"),
    errno.EFBIG: "raise the limit (ulimit -f), or name another place",
    errno.ENAMETOOLONG: "take a shorter name",
    errno.ELOOP: "the link leads back to itself; name what it should lead to",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a file stands where a folder is needed; name another place",
    errno.EEXIST: "something else is there; name another place",
    errno.ENOENT: "see whether it is still there, or name another place",
    errno.EMFILE: "raise the limit: ulimit -n 4096",
}
_TEMPORARY = re.compile(r"(^|/)\.([^/]+?)(\.\d+)?\.tmp(?=/|$)")
"""Names under which our files are written before they get their own."""


def os_failure(error: OSError, path: str | os.PathLike[str] | None = None) -> CbrError:
    """What the operating system refused, as one line with the path (`path`, where the error does not know it), the
    free space if that was the cause, and what to do."""
    at = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else os.fspath(path or "")
    at, number = _TEMPORARY.sub(r"\1\2", at), error.errno or 0
    said = (error.strerror or str(error)) + (f" ({free_mebibytes(at)} MiB free)" if number in _FULL else "")
    hint = _MEND.get(number, "try again, or name another place")
    return CbrError(f"{at}: {said}", hint=hint) if at else RunFailed(said, hint=hint)


def free_mebibytes(path: str) -> int:
    """How much room is left on the disk of a path, which need not be there."""
    while path and not os.path.isdir(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path or ".").free >> 20


def link_to_nowhere(path: str | os.PathLike[str]) -> str | None:
    """What to say of a path that leads through a link to nothing; None for any other path."""
    at = os.path.abspath(path)
    while at != os.path.dirname(at):
        if os.path.islink(at) and not os.path.exists(at):
            return f"{at}: a link to nowhere (-> {os.readlink(at)})"
        at = os.path.dirname(at)
    return None


# -- words -------------------------------------------------------------------------------------------------------


def printable(text: str, *, keep: str = "") -> str:
    """A text of a game, a file or an author, for a terminal, where control characters would do things: each of
    them is shown as an escape (``\\x1b[2J``), but for those to `keep`."""
    if text.isprintable():
        return text
    shown = (each for each in {*text} - {*keep} if not each.isprintable() and unicodedata.category(each) != "Zs")
    return text.translate(str.maketrans({each: each.encode("unicode_escape").decode() for each in shown}))


def closest(name: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The choice that `name` most probably meant, or None. 1: equal."""
    found = difflib.get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return found[0] if found else None


def suggest(name: str, choices: Iterable[str]) -> str:
    """A sentence that helps: ``Did you mean 'vq'?``, or the list of what there is."""
    known = sorted(set(choices))
    if best := closest(name, known):
        return f"Did you mean {best!r}?"
    return f"Choose one of: {', '.join(known)}." if known else "There is none."
