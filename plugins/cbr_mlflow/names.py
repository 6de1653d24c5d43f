"""Names and values as MLflow takes them. Imports no MLflow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

MAX_BYTES = 250
"""MLflow's limit for a name is 250 characters; in bytes it fits into a file's name too."""
MAX_VALUE = 6000
"""MLflow's limit for the value of a parameter, in characters."""


def is_number(value: object) -> bool:
    """Whether it can be a metric: a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def parameter(value: object) -> str:
    """A value of a recipe as the value of a parameter: texts as they are, the rest as JSON; cut if too long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def allowed(name: str) -> str:
    """The name, with "_" for what MLflow does not take: most punctuation, and what is no relative path."""
    clean = re.sub(r"[^/\w.\- :]", "_", name).encode()[:MAX_BYTES].decode(errors="ignore")
    folders = clean.split("/")
    return clean if all(folder.strip(".") for folder in folders) else "_".join(folders).replace(".", "_") or "_"


class Names:
    """The names of a run's metrics, or of its parameters, in MLflow.

    No two of a run have the same one, though MLflow takes fewer characters: of ``hit@1`` and ``hit#1`` the later
    one gets "_" at its end. MLflow's files hold one each, so ``loss`` and ``loss/policy`` cannot both be there
    either: of two such names the later one gets "_" for its slashes, or one at its end.

    Args:
        taken: what the run has already. It is given out again when the same names are asked for in the same order.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._there = set(taken)
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The name in MLflow; the same one whenever it is asked for."""
        if name not in self._known:
            self._known[name] = self._free(allowed(name))
            self._there.add(self._known[name])
        return self._known[name]

    def _free(self, name: str) -> str:
        given = set(self._known.values())
        if any(name.startswith(f"{other}/") for other in self._there):
            name = name.replace("/", "_")
        free, more = name, 0
        while free in given or any(other.startswith(f"{free}/") for other in self._there):
            more += 1
            free = name.encode()[: MAX_BYTES - more].decode(errors="ignore") + "_" * more
        return free
