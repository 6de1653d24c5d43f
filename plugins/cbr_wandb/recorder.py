"""Metrics rows and results in Weights & Biases (https://docs.wandb.ai)."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import wandb

from cbr_wandb.config import WandbConfig
from cbrcore.config import expand_path
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build

ID_FILE = "wandb_run_id.txt"
"""Keeps the run's W&B id in the run folder, so that a resumed run goes on with the same one."""
SECONDS_TO_UPLOAD = 300
"""How long the end of an online run waits for the network; the rest stays on disk, for ``wandb sync``."""


class WandbRecorder:
    """One W&B run per run. It touches neither ``wandb.run`` nor what other users of W&B in this process do."""

    def __init__(self, config: WandbConfig, build: Build) -> None:
        self.config = config
        self._base = build.recipe_dir
        self._run: Any = None
        self._own_session = False
        self._finished = False

    def __repr__(self) -> str:
        return f"WandbRecorder({self.config!r})"

    def begin(self, folder: Path, recipe: Mapping[str, Any], *, after: int) -> None:
        """Start a W&B run, or go on with the one that the folder names.

        Raises:
            CbrError: the folder cannot be written, nobody is logged in, the server cannot be reached or refuses.
        """
        if self.config.mode == "disabled":
            return
        where = folder if self.config.directory is None else expand_path(self.config.directory, self._base)
        try:
            where.mkdir(parents=True, exist_ok=True)
            if not os.access(where, os.W_OK | os.X_OK):  # W&B would go elsewhere silently
                raise PermissionError(f"{where} cannot be written")
            self._start(folder, where, recipe)
            if after:
                self._run.config.update({"resumed_after": after}, allow_val_change=True)
        except Exception as error:
            with contextlib.suppress(Exception):
                self.close()
            raise CbrError(f"W&B cannot begin: {error}", hint=self._hint(where)) from error

    def write(self, row: Mapping[str, Any]) -> None:
        if self._run is None:
            return
        numbers = {
            name: value
            for name, value in row.items()
            if isinstance(value, int | float) and math.isfinite(value) and name != "episode"
        }
        self._run.log(numbers, step=row["episode"])

    def finish(self, results: Mapping[str, Any]) -> None:
        """The results become the run's summary, as they are nested."""
        self._finished = True
        if self._run is not None:
            self._run.summary.update(dict(results))

    def close(self) -> None:
        """End the W&B run, as failed without `finish`, and W&B's service process if it was started here."""
        run, self._run = self._run, None
        try:
            if run is not None:
                run.finish(exit_code=0 if self._finished else 1)
        finally:
            own, self._own_session = self._own_session, False
            if own:
                with contextlib.suppress(SystemExit):  # what W&B does if its service process ended badly
                    wandb.teardown()

    def _start(self, folder: Path, where: Path, recipe: Mapping[str, Any]) -> None:
        config = self.config
        with self._session():
            self._run = wandb.init(
                id=_run_id(folder / ID_FILE),
                name=folder.name,
                project=config.project,
                entity=config.entity,
                group=config.group,
                tags=config.tags or None,
                mode=config.mode,
                dir=str(where),
                config=dict(recipe),
                allow_val_change=True,  # a resumed run may have a longer budget
                resume="allow",
                reinit="create_new",  # leaves wandb.run and wandb.log alone
                settings=wandb.Settings(
                    silent=True, console="off", save_code=False, finish_timeout=SECONDS_TO_UPLOAD
                ),
            )

    @contextlib.contextmanager
    def _session(self) -> Iterator[None]:
        """W&B's session in this process: the one that somebody else has begun, or a new one, which `close` ends.

        A new one that is offline reports nothing to W&B about its own health either.
        """
        self._own_session = wandb.run is None and "WANDB_SERVICE" not in os.environ
        if not self._own_session:
            yield
        elif self.config.mode == "offline":
            with _no_reports():
                wandb.setup(wandb.Settings(mode="offline", silent=True))
                yield
        else:
            wandb.setup(wandb.Settings(silent=True))
            if not wandb.login(prompt=False, verify=False):
                raise CbrError("nobody is logged in")
            yield

    def _hint(self, where: Path) -> str:
        if self.config.mode == "online":
            return "wandb login, check `project` and `entity`, or write `mode: offline` and `wandb sync` later"
        return f"make room in {where}, or write `mode: disabled`"


@contextlib.contextmanager
def _no_reports() -> Iterator[None]:
    """W&B reads this when it starts: no error reports and no telemetry, unless the user has said otherwise."""
    name = "WANDB_ERROR_REPORTING"
    if name in os.environ:
        yield
        return
    os.environ[name] = "false"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _run_id(path: Path) -> str:
    """The id in the file, which gets a new one if it is not there or empty."""
    known = path.read_text().strip() if path.is_file() else ""
    if not known:
        known = secrets.token_hex(8)
        path.write_text(f"{known}\n")
    return known
