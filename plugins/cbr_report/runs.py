"""A run as the report sees it, runs that differ in their seed alone as a group, and all of them for sections."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, overload

from cbr_open.door import Run as OpenedRun
from cbr_report.facts import games_digest, mapping_at, measured_alike
from cbr_sweep.differences import flat
from cbrcore.runs.folder import METRICS_FILE

if TYPE_CHECKING:
    from cbrcore.plugins import PluginReport

NOT_COMPARED = ("name", "seed", "directory", "sweep", "schema", "run.device", "run.checkpoint_every")
"""What a recipe says that does not make it another experiment."""
ENVIRONMENT = "environment."

Plain = Mapping[str, Any]


@dataclass(eq=False)
class Run:
    """One finished run, as its folder tells it; a `cbrcore.ReportedRun`.

    Attributes:
        path: as the user named it.
        recipe, results: what recipe.yaml and results.json hold.
        versions: of versions.json; empty if it is missing.
        sweep: file name of the recipe whose sweep it belongs to, if sweep.json says so.
        choices: its axis -> choice in that sweep, as text.
        agent, place: as in its `Group`.
    """

    path: Path
    recipe: Plain
    results: Plain
    versions: Plain = field(default_factory=dict)
    sweep: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    agent: str = ""
    place: str = ""

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
    def measured(self) -> dict[str, str]:
        """How its numbers came about; see `cbr_report.facts`."""
        return measured_alike(self.recipe, self.results, self.versions)

    @cached_property
    def games(self) -> str:
        """Equal for runs of the same games."""
        return games_digest(self.results)

    @property
    def pretraining_steps(self) -> int:
        """Environment steps that were played before the training, as far as results.json counts them."""
        return int(self.number("training", "pretraining", "steps") or 0)

    @property
    def before_training(self) -> str:
        """What was played before the training ("50 plays of pretraining"); "" for nothing."""
        if not mapping_at(self.results, "training", "pretraining"):
            return ""
        plays = self.number("training", "pretraining", "plays")
        return (
            "pretraining, not counted" if plays is None else f"{plays:,.0f} plays of pretraining" if plays else ""
        )

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl, without lines that are damaged."""
        return read_metrics(self.path / METRICS_FILE)[0]


@dataclass(eq=False)
class Group:
    """Runs of one recipe that differ in their seed alone: they played the same games and were measured alike.

    Attributes:
        agent, place: what tables and figures call it, and where it plays; see `cbr_report.names`.
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
    def measured(self) -> dict[str, str]:
        """How its numbers came about, the same for all its runs; see `cbr_report.facts`."""
        return self.runs[0].measured

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.runs[0].results.get("evaluation", {}))

    @property
    def uses_cases(self) -> bool:
        return bool(self.recipe.get("memory"))

    @property
    def budget(self) -> str:
        """How long it was trained, and what was played before ("100 passes + 50 plays of pretraining")."""
        run = self.recipe.get("run")
        told = run if isinstance(run, Mapping) else {}
        passes, steps = told.get("episodes"), told.get("env_steps")
        trained = f"{passes} passes" if passes is not None else f"{steps} steps" if steps is not None else "?"
        before = dict.fromkeys(run.before_training for run in self.runs)
        return " / ".join(f"{trained} + {text}" if text else trained for text in before)

    @property
    def steps(self) -> str:
        """How many environment steps that took, the mean over runs ("25,000 + 2,000 of pretraining")."""
        trained = self.numbers("training", "env_steps")
        before = self.numbers("training", "pretraining", "steps")
        told = f"{fmean(trained):,.0f}" if trained else "?"
        return f"{told} + {fmean(before):,.0f} of pretraining" if before and fmean(before) else told

    def results_at(self, *keys: str) -> Mapping[str, Any]:
        """The mapping at these keys of its first run's results; an empty one where there is none."""
        return mapping_at(self.runs[0].results, *keys)

    def numbers(self, *keys: str) -> list[float]:
        """The number at these keys of every run that has it."""
        found = (run.number(*keys) for run in self.runs)
        return [number for number in found if number is not None]


@dataclass(frozen=True)
class Options:
    """What was asked of `cbr report`.

    Attributes:
        folders: as the user named them.
        page: the file to be written.
        paper: the file of the paper's numbers, if it was named.
        decisions: whether runs may be opened and play.
    """

    folders: Sequence[Path] = ()
    page: Path = Path("report.html")
    paper: Path | None = None
    decisions: bool = True


class Runs(Sequence[Run]):
    """All runs of a report, in the order of its tables: what the factory of a section is called with.

    Attributes:
        groups: the runs by recipe, named.
        notes: what is missing, damaged or not comparable; a section may add to it.
        sweeps: the sweeps that the folders are of.
        plugins: what is installed here, to open runs with.
        kept: what one section keeps for another, by name.
    """

    def __init__(
        self, groups: Sequence[Group], plugins: PluginReport, options: Options | None = None,
        *, sweeps: Sequence[SweepFile] = (), notes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.groups = list(groups)
        self.plugins = plugins
        self.options = options or Options()
        self.sweeps = list(sweeps)
        self.notes = list(notes)
        self.kept: dict[str, Any] = {}

    def __len__(self) -> int:
        return sum(len(group.runs) for group in self.groups)

    @overload
    def __getitem__(self, at: int) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> list[Run]: ...
    def __getitem__(self, at: int | slice) -> Run | list[Run]:
        return [run for group in self.groups for run in group.runs][at]

    def opened(self, run: Run) -> OpenedRun:
        """The run, to look at; its parts are built when they are first asked for."""
        return OpenedRun(run.path, self.plugins)


@dataclass(frozen=True)
class SweepFile:
    """What a sweep.json says.

    Attributes:
        recipe: file name of its recipe.
        runs: run id -> axis -> choice as text.
        typed: the recipe's path, as it was given.
        options: what was typed besides, as to which runs these are; older sweeps did not write it down.
    """

    folder: Path
    recipe: str
    runs: Mapping[str, Mapping[str, str]]
    typed: str
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Makes its runs, or goes on with them."""
        return shlex.join(["cbr", "sweep", self.typed, *self.options, "--out", str(self.folder)])


def by_place(groups: Sequence[Group]) -> Iterator[tuple[str, list[Group]]]:
    """(place, its groups), in order."""
    for place, same in groupby(groups, key=lambda group: group.place):
        yield place, list(same)


def number_at(data: Any, keys: Sequence[str]) -> float | None:
    """The finite number at these keys of nested mappings; None where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    usable = isinstance(data, int | float) and not isinstance(data, bool) and abs(data) <= sys.float_info.max
    return float(data) if usable else None


def comparable(recipe: Plain) -> dict[str, Any]:
    """Dotted path -> value, without what does not make a recipe another experiment."""
    return {path: value for path, value in flat(recipe).items() if path not in NOT_COMPARED}


def group(runs: Sequence[Run]) -> list[Group]:
    """The runs by recipe, games and protocol, in the order in which they were found; seeds in ascending order."""
    by_recipe: dict[str, list[Run]] = {}
    for run in runs:
        same = json.dumps([run.settings, run.games, run.measured], sort_keys=True, default=str)
        by_recipe.setdefault(same, []).append(run)
    return [Group(tuple(sorted(same, key=lambda run: run.seed))) for same in by_recipe.values()]


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


def read_metrics(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """(the rows of a metrics.jsonl, the numbers of the lines that are none)"""
    rows, damaged = [], []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        lines = []
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif line:
            damaged.append(number)
    return rows, damaged


def _row(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None if there is none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
