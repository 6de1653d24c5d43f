"""A run as the report sees it, and runs that differ in their seed alone as a group."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cbrcore.records import METRICS_FILE

NOT_COMPARED = ("name", "seed", "directory", "sweep", "schema", "run.device", "run.checkpoint_every")
"""What a recipe says that does not make it another experiment."""

Plain = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One finished run, as its folder tells it.

    Attributes:
        path: as the user named it.
        recipe, results: what recipe.yaml and results.json hold.
        versions: of versions.json; empty if it is missing.
        sweep: file name of the recipe whose sweep it belongs to, if sweep.json says so.
        choices: its axis -> choice in that sweep, as text.
    """

    path: Path
    recipe: Plain
    results: Plain
    versions: Plain = field(default_factory=dict)
    sweep: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)

    def number(self, *keys: str) -> float | None:
        """The number in results.json at these keys; None where there is none."""
        return number_at(self.results, keys)

    @property
    def seed(self) -> int:
        return int(self.recipe.get("seed", 0))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Dotted path -> value, of all that makes it this experiment."""
        return comparable(self.recipe)

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a line that was cut off ends them."""
        return list(_rows(self.path / METRICS_FILE))


@dataclass(eq=False)
class Group:
    """Runs of one recipe that differ in their seed alone.

    Attributes:
        agent, place: what tables and figures call it, and where it plays; see `cbrcore.report.naming`.
    """

    runs: tuple[Run, ...]
    agent: str = ""
    place: str = ""

    @property
    def recipe(self) -> Plain:
        return self.runs[0].recipe

    @property
    def settings(self) -> dict[str, Any]:
        return self.runs[0].settings

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.runs[0].results.get("evaluation", {}))

    @property
    def uses_cases(self) -> bool:
        return bool(self.recipe.get("memory"))

    def numbers(self, *keys: str) -> list[float]:
        """The number at these keys of every run that has it."""
        found = (run.number(*keys) for run in self.runs)
        return [number for number in found if number is not None]


def number_at(data: Any, keys: Sequence[str]) -> float | None:
    """The finite number at these keys of nested mappings; None where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    usable = isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < float("inf")
    return float(data) if usable else None


def comparable(recipe: Plain) -> dict[str, Any]:
    """Dotted path -> value, without what does not make a recipe another experiment."""
    return {path: value for path, value in flat(recipe) if path not in NOT_COMPARED}


def flat(data: Plain, before: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of nested mappings."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def group(runs: Sequence[Run]) -> list[Group]:
    """The runs by recipe, in the order in which they were found; seeds in ascending order."""
    by_recipe: dict[str, list[Run]] = {}
    for run in runs:
        by_recipe.setdefault(json.dumps(run.settings, sort_keys=True, default=str), []).append(run)
    return [Group(tuple(sorted(same, key=lambda run: run.seed))) for same in by_recipe.values()]


def one_per_seed(runs: Iterable[Run]) -> Group:
    """The runs, one of each seed: what does not depend on the agent (the uniform random one) counts once."""
    return Group(tuple({run.seed: run for run in runs}.values()))


def doubles(groups: Sequence[Group]) -> list[str]:
    """Notes on seeds that stand twice for one recipe: equal runs are no further evidence."""
    return [
        f"{group.agent}, {group.place}: {count} runs have seed {seed}; equal runs are no further evidence"
        for group in groups
        for seed, count in Counter(run.seed for run in group.runs).items()
        if count > 1
    ]


def seedless(name: str) -> str:
    """A folder's name without its seed: "bike_cbr-level=easy-seed=3" and "bike_cbr-3" become what is before."""
    return re.sub(r"[-_](seed=?)?\d+$", "", name) or name


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            return
        if not isinstance(row, dict):
            return
        yield row
