"""Files that a user names: what is wrong with one, in the same words everywhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from cbrcore.config import expand_path
from cbrcore.errors import link_to_nowhere


def named_path(text: str, base: Path) -> Path:
    """The path that `text` means, as `expand_path` reads it; a link stays a link, so that it can be named.

    Raises:
        CbrError: what `expand_path` raises.
    """
    resolved = expand_path(text, base)
    path = base / os.path.expanduser(os.path.expandvars(text))
    return path if path.is_symlink() else resolved


def fault_of(path: Path, kind: Literal["file", "folder"] = "file") -> str | None:
    """Why `path` is no file (or folder) that can be read, as what follows "PATH: "; None if it is one."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        nowhere = link_to_nowhere(path)
        return nowhere.removeprefix(f"{os.path.abspath(path)}: ") if nowhere else f"no such {kind}"
    except OSError as error:
        return _lower(error.strerror or str(error))
    if kind == "folder" and not stat.S_ISDIR(mode):
        return "is not a folder"
    if kind == "file" and not stat.S_ISREG(mode):
        return "is a folder" if stat.S_ISDIR(mode) else "is a device, not a file"
    return None if os.access(path, os.R_OK) else "permission denied"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
