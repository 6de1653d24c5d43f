"""Metrics rows and results in MLflow (https://mlflow.org)."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from cbr_mlflow.config import MlflowConfig
from cbr_mlflow.names import Names, allowed, is_number, parameter
from cbr_mlflow.variables import our_variables
from cbr_sweep.differences import flat
from cbrcore.config import expand_path
from cbrcore.errors import CbrError, Interrupted
from cbrcore.interfaces import Build

with our_variables():
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient
    from mlflow.utils.file_utils import local_file_uri_to_path

ID_FILE = "mlflow_run_id.txt"
"""Keeps the run's MLflow id in the run folder, so that a resumed run goes on with the same one."""
SECONDS_FOR_OTHERS = 60
"""How long to wait for other runs that begin at the same time."""


class MlflowRecorder:
    """One MLflow run per run, by a client of its own: MLflow's active run and tracking URI stay as they are."""

    def __init__(self, config: MlflowConfig, build: Build) -> None:
        self.config = config
        self._base = build.recipe_dir
        self._client: Any = None
        self._run_id = ""
        self._names = Names()
        self._finished = False

    def __repr__(self) -> str:
        return f"MlflowRecorder({self.config!r})"

    @our_variables()
    def begin(self, folder: Path, recipe: Mapping[str, Any], *, after: int) -> None:
        """Start an MLflow run, or go on with the one that the folder names.

        Raises:
            CbrError: the store cannot be reached or written, or has lost the run that is to go on.
        """
        place, note = self._place(folder), folder / ID_FILE
        try:
            with self._last_error():
                experiment = self._connect(place)
                self._run_id = note.read_text().strip() if note.is_file() else ""
                if self._run_id:
                    self._go_on(after)
                else:
                    self._start(experiment, folder, note)
                self._write_parameters(recipe)
        except Exception as error:
            raise CbrError(f"MLflow cannot record at {place}: {error}", hint=_hint(note)) from error

    def write(self, row: Mapping[str, Any]) -> None:
        numbers = {name: value for name, value in row.items() if is_number(value) and name != "episode"}
        with self._last_error():
            self._log(numbers, step=row["episode"])

    @our_variables()
    def finish(self, results: Mapping[str, Any]) -> None:
        """The results become a file, and their numbers metrics, without those of single games and the protocol."""
        text = json.dumps(results, indent=2, ensure_ascii=False, default=str)
        found = {name: value for name, value in results.items() if name not in ("schema", "protocol")}
        numbers = {
            name: value for name, value in flat(found).items() if is_number(value) and ".games." not in name
        }
        with self._last_error():
            self._client.log_text(self._run_id, f"{text}\n", "results.json")
            self._log(numbers, step=0)
        self._finished = True

    @our_variables()
    def close(self) -> None:
        """End the MLflow run: FINISHED after `finish`, KILLED if the user stopped it, FAILED if an error does."""
        client, self._client = self._client, None
        if client is not None:
            client.set_terminated(self._run_id, "FINISHED" if self._finished else _ended_early())

    @contextlib.contextmanager
    def _last_error(self) -> Iterator[None]:
        """After an error nothing more is written, no status either: MLflow empties a file before it writes it;
        on a full disk the run's description would be lost."""
        try:
            yield
        except Exception:
            self._client = None
            raise

    # -- beginning -----------------------------------------------------------------------------------------

    def _place(self, folder: Path) -> str:
        """The tracking URI."""
        given = self.config.tracking_uri
        if given is None:
            return (folder.resolve().parent / "mlruns").as_uri()
        expanded = os.path.expandvars(given)
        if "://" in expanded or expanded.startswith("file:") or expanded in ("databricks", "uc"):
            return expanded
        return expand_path(given, self._base).as_uri()

    def _alone(self, place: str) -> contextlib.AbstractContextManager[Any]:
        """No other run makes the store or an experiment in it meanwhile; MLflow's files know no locks."""
        if not place.startswith("file:"):
            return contextlib.nullcontext()
        store = Path(local_file_uri_to_path(place))
        store.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(store.with_name(f".{store.name}.lock"), timeout=SECONDS_FOR_OTHERS)

    def _connect(self, place: str) -> str:
        """Open the store; returns the id of the experiment in it."""
        with self._alone(place):
            self._client = MlflowClient(tracking_uri=place, registry_uri=place)
            found = self._client.get_experiment_by_name(self.config.experiment)
            if found is not None:
                return str(found.experiment_id)
            return str(self._client.create_experiment(self.config.experiment))

    def _start(self, experiment: str, folder: Path, note: Path) -> None:
        name = self.config.run_name or folder.name
        run = self._client.create_run(experiment, run_name=name, tags=dict(self.config.tags))
        self._run_id = run.info.run_id
        note.write_text(f"{self._run_id}\n")

    def _go_on(self, after: int) -> None:
        """MLflow forgets no value: a tag says from which episode on the later of two is the valid one."""
        run = self._client.get_run(self._run_id)
        self._names = Names(run.data.metrics)
        before = run.data.tags.get("resumed_after")
        self._client.set_tag(self._run_id, "resumed_after", f"{before}, {after}" if before else str(after))
        self._client.update_run(self._run_id, status="RUNNING")

    def _write_parameters(self, recipe: Mapping[str, Any]) -> None:
        """MLflow lets nobody change a parameter: what a resumed run has different (a longer budget) is a tag."""
        known = self._client.get_run(self._run_id).data.params
        names = Names(known)
        wanted = {names.of(name): parameter(value) for name, value in flat(recipe).items()}
        new = [Param(name, value) for name, value in wanted.items() if name not in known]
        changed = {name: value for name, value in wanted.items() if known.get(name, value) != value}
        tags = [RunTag(allowed(f"resumed.{name}"), value) for name, value in changed.items()]
        self._client.log_batch(self._run_id, params=new, tags=tags)

    def _log(self, numbers: Mapping[str, float], *, step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [Metric(self._names.of(name), float(value), now, step) for name, value in numbers.items()]
        self._client.log_batch(self._run_id, metrics=metrics)


def _hint(note: Path) -> str:
    if note.is_file():
        return f"mend `tracking_uri`, or remove {note} to begin a new MLflow run"
    return "mend `tracking_uri` (a folder with room in it, or a server that runs), or take the recorder out"


def _ended_early() -> str:
    """The status of a run that `close` finds unfinished, by the error that is on its way."""
    error = sys.exc_info()[1]
    stopped = error is None or isinstance(error, Interrupted | KeyboardInterrupt)
    return "KILLED" if stopped else "FAILED"
