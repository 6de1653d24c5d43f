"""How two recipes differ, both given as plain data (`cbrcore.recipe.plain_recipe`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cbrcore.runs.resuming import flat

__all__ = ["Difference", "differences", "flat"]


@dataclass(frozen=True)
class Difference:
    """A setting in which two recipes differ: its dotted path, and what it is, as Python writes it."""

    path: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.path} is {self.before} there, {self.now} now"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """The settings in which two recipes, given as plain data, differ; of another component only its `use` line."""
    old, new = flat(before), flat(now)
    paths = [path for path in old | new if path not in old or path not in new or old[path] != new[path]]
    other = tuple(path.removesuffix("use") for path in paths if path.endswith(".use"))
    return [
        Difference(path, *(repr(data[path]) if path in data else "not set" for data in (old, new)))
        for path in paths
        if path.endswith(".use") or not path.startswith(other)
    ]
