"""The folder of a sweep: which runs there are, and how far each one is.

sweep.json          which runs there are: id, choices, settings
<id>/               a run folder, as of `cbr run`
jobs/<id>.log       what the run's processes print;  jobs/<id>.recipe.yaml  the recipe they are started with
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock

from cbr_sweep.axes import SweepRun
from cbr_sweep.differences import differences
from cbr_sweep.finished import why_not_done
from cbrcore.config import Recipe
from cbrcore.errors import CbrError, RecipeError, RunFolderError
from cbrcore.recipe import dump_recipe, load_recipe, plain_recipe
from cbrcore.registry import Registry
from cbrcore.runs.files import is_leftover
from cbrcore.runs.folder import RECIPE_FILE, RESULTS_FILE, holds_nothing, read_json, user_of, write_atomically

SWEEP_FILE = "sweep.json"
LOCK_FILE = ".sweep.lock"
JOBS = "jobs"
SHOWN = 10
"""So many runs are named in an error."""


class RunState(StrEnum):
    """How far a run is."""

    NEW = "new"
    STARTED = "started"
    """It was begun, and nobody works on it: its next process continues from its latest checkpoint."""
    DONE = "done"
    IN_USE = "in use"
    """Another process works on it."""
    RUNNING = "running"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class PlannedRun:
    """A run of the sweep with its own, checked recipe."""

    run: SweepRun
    recipe: Recipe

    @property
    def id(self) -> str:
        return self.run.id


class SweepFolder:
    """The folder `path`; nothing is written before `begin`."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def __repr__(self) -> str:
        return f"SweepFolder({str(self.path)!r})"

    def run(self, run_id: str) -> Path:
        return self.path / run_id

    def log(self, run_id: str) -> Path:
        return self.path / JOBS / f"{run_id}.log"

    def recipe(self, run_id: str) -> Path:
        return self.path / JOBS / f"{run_id}.{RECIPE_FILE}"

    def state(self, item: PlannedRun) -> RunState:
        """How far the run is, by what lies in its folder.

        Raises:
            RunFolderError: something else than a run lies there.
        """
        folder = self.run(item.id)
        if user_of(folder) is not None:
            return RunState.IN_USE
        if (folder / RECIPE_FILE).is_file():
            return RunState.STARTED if why_not_done(folder, item.recipe) else RunState.DONE
        if folder.is_dir() and not holds_nothing(folder):
            raise RunFolderError(f"{folder} is not empty and holds no run", hint="choose another --out")
        return RunState.NEW

    def wrong_results(self, item: PlannedRun) -> str | None:
        """Why results that lie in the run's folder do not count; None if there are none, or they do."""
        folder = self.run(item.id)
        return why_not_done(folder, item.recipe) if (folder / RESULTS_FILE).is_file() else None

    def check(self, name: str, planned: Sequence[PlannedRun], registry: Registry) -> None:
        """The folder is free, or holds this sweep.

        Raises:
            RunFolderError: it holds something else, or runs that were made with another recipe.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is a file, not a folder", hint="choose another --out")
        lies_there = [] if not self.path.is_dir() else [path for path in self.path.iterdir() if not _begins(path)]
        if self._of(name) is None and lies_there:  # read afterwards: it is the first thing that a sweep writes
            raise RunFolderError(f"{self.path} is not empty and holds no sweep", hint="choose another --out")
        for item in planned:
            if item.id in (JOBS, SWEEP_FILE):
                raise CbrError(f"a run cannot be called {item.id!r}", hint="give the variant another name")
        self._check_unchanged(planned, registry)

    def _check_unchanged(self, planned: Sequence[PlannedRun], registry: Registry) -> None:
        changed = {item.id: text for item in planned if (text := self._change(item, registry))}
        if not changed:
            return
        lines = [f"  {run_id}: {text}" for run_id, text in list(changed.items())[:SHOWN]]
        more = [f"  and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else []
        first = self.run(next(iter(changed)))
        raise RunFolderError(
            "\n".join([f"runs in {self.path} were made with another recipe:", *lines, *more]),
            hint="undo the change, choose another --out, or remove these runs, as in: "
            + shlex.join(["rm", "-r", str(first)]),
        )

    def _change(self, item: PlannedRun, registry: Registry) -> str:
        """What differs between the run's stored recipe and its recipe now; empty if nothing does."""
        stored = self.run(item.id) / RECIPE_FILE
        if not stored.is_file():
            return ""
        try:
            before = load_recipe(stored, registry=registry)
        except RecipeError as error:
            return f"{stored} cannot be read any more: {error.problems[0]}"
        where = {"directory": None}
        found = differences(plain_recipe(before) | where, plain_recipe(item.recipe) | where)
        return "; ".join(map(str, found))

    def begin(
        self,
        name: str,
        recipe: Path,
        runs: Sequence[SweepRun],
        planned: Sequence[PlannedRun],
        *,
        typed: Sequence[str] = (),
    ) -> None:
        """Write sweep.json, with the options that were `typed`, and the recipe of each planned run.

        Runs of an earlier call with other axes stay in sweep.json as long as they have a folder.

        Raises:
            RunFolderError: another sweep was begun here since `check`.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        now = {run.id: _entry(run) for run in runs}
        with FileLock(self.path / LOCK_FILE):
            earlier = [entry for entry in (self._of(name) or {"runs": []})["runs"] if self._is_kept(entry, now)]
            file = {"recipe": recipe.name, "path": str(recipe), "options": list(typed)}
            data = {"schema": 1, "name": name, **file, "runs": [*earlier, *now.values()]}
            write_atomically(self.path / SWEEP_FILE, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        (self.path / JOBS).mkdir(exist_ok=True)
        for item in planned:
            write_atomically(self.recipe(item.id), dump_recipe(item.recipe))

    def _is_kept(self, entry: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
        return entry["id"] not in now and (self.run(entry["id"]) / RECIPE_FILE).is_file()

    def _of(self, name: str) -> dict[str, Any] | None:
        """sweep.json; None if there is none.

        Raises:
            RunFolderError: it is damaged, or that of another sweep.
        """
        written = self._written()
        if written is not None and written["name"] != name:
            raise RunFolderError(
                f"{self.path} holds the sweep {written['name']!r}, not {name!r}", hint="choose another --out"
            )
        return written

    def _written(self) -> dict[str, Any] | None:
        """sweep.json; None if there is none.

        Raises:
            RunFolderError: it is damaged.
        """
        path = self.path / SWEEP_FILE
        if not path.is_file():
            return None
        data = read_json(path)
        with contextlib.suppress(TypeError, KeyError):
            if data["schema"] == 1 and all(isinstance(entry["id"], str) for entry in data["runs"]):
                return dict(data) | {"name": str(data["name"])}
        hint = f"remove it: rm {shlex.quote(str(path))}"
        raise RunFolderError(f"{path} is damaged, or of another version", hint=hint)


def _begins(path: Path) -> bool:
    """Whether the file is what lies in a folder just before sweep.json does."""
    return path.name == LOCK_FILE or is_leftover(path, re.escape(SWEEP_FILE))


def _entry(run: SweepRun) -> dict[str, Any]:
    return {"id": run.id, "choices": dict(run.choices), "settings": dict(run.settings)}
