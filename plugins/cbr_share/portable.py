"""What a run says, without the machine that it ran on: no path of it goes into a shared file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cbrcore.config import Recipe, cache_dir
from cbrcore.errors import CbrError
from cbrcore.recipe import plain_recipe
from cbrcore.runs.resuming import changes, flat

READ_AT_START = ("memory.cases", "training.pretrain.retriever", "training.pretrain.file")
"""Settings that were read when the run began: what they named is in the weights and the cases now."""
ABSOLUTE = re.compile(r"([/~]|[A-Za-z]:[\\/]).+", re.DOTALL)
SHORTEST = 4
"""A path of fewer letters ("/", "/a") is no trace of a machine."""


def portable_recipe(stored: Recipe, changed: Recipe) -> dict[str, Any]:
    """The recipe of a run as plain data, for another machine: paths start at its own folder, it starts
    with nothing but what is shared, and who looks on is left to whoever runs it.

    Args:
        changed: the same with what the user set for the export.

    Raises:
        CbrError: it names a path of this machine, or what was set is none.
    """
    before, data = plain_recipe(stored), plain_recipe(changed)
    places = {path for path, text in _texts(before) if _is_place(text, stored.directory)}
    if others := changes(before, data).keys() - places:
        told = f"{min(others)} would make it another run; only a path of this machine can be set for an export"
        raise CbrError(told, hint=f"leave out --set {min(others)}=...")
    data |= {"directory": "."}
    data.pop("recorders", None)
    for path in READ_AT_START:
        _forget(data, path.split("."))
    for path, text in _texts(data):
        if path != "directory" and _is_place(text, stored.directory):
            told = f"recipe.yaml: {path}: {text!r} is a path of this machine, which others have not"
            raise CbrError(
                told, hint=f"say what it is elsewhere: --set {path}=null, or a path like '$CBR_GAMES/...'"
            )
    return data


def _texts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(dotted path, text) of each setting that is a text, or a list with texts."""
    for path, value in flat(data).items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and not path.endswith("use"):
                yield path, each


def _is_place(text: str, base: Path) -> bool:
    """Whether a setting names something on this machine's disk. ``$VAR/...`` is each machine's own."""
    if "$" in text or not text.strip():
        return False
    return bool(ABSOLUTE.fullmatch(text)) or (bool(re.search(r"[/\\.]", text)) and os.path.exists(base / text))


def _forget(data: dict[str, Any], keys: Sequence[str]) -> None:
    *around, last = keys
    for key in around:
        data = data.get(key) or {}
    if data.get(last) is not None:
        data[last] = None


def without_places(data: Any) -> Any:
    """JSON data in which each text that is an absolute path is its last part."""
    if isinstance(data, Mapping):
        return {without_places(key): without_places(value) for key, value in data.items()}
    if isinstance(data, list):
        return [without_places(value) for value in data]
    if isinstance(data, str) and ABSOLUTE.fullmatch(data):
        return re.split(r"[/\\]", data.rstrip("/\\"))[-1]
    return data


def refuse_places(folder: Path, run: Path, recipe: Recipe) -> None:
    """Look through the texts of a folder for this machine's own paths.

    Raises:
        CbrError: one of them is in a file.
    """
    own = [run.resolve(), recipe.directory, Path.home(), Path.cwd(), cache_dir().resolve()]
    own += [Path(os.environ["CBR_GAMES"]).resolve()] if os.environ.get("CBR_GAMES") else []
    texts = {re.escape(str(path)) for path in own if len(str(path)) >= SHORTEST}
    found = re.compile(rf"(?<![\w/.])({'|'.join(sorted(texts))})(?=[/\"'\s\\]|$)".encode())
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".safetensors" and (match := found.search(path.read_bytes())):
            told = f"{run}: {path.relative_to(folder)} names a path of this machine: {match[1].decode()}"
            raise CbrError(told, hint="report it to the author of the part that wrote it; nothing was exported")
