"""Runs as jobs of a Slurm cluster, by submitit (https://github.com/facebookincubator/submitit)."""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import submitit

from cbr_launchers.config import SubmititConfig
from cbr_launchers.processes import CANNOT_START, SECONDS_TO_STOP, cores, end_all, interrupt, start
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Ended, Job

SECONDS_BETWEEN_LOOKS = 0.3
INTERRUPTED = 130
LOST = 1
"""Exit code of a job that the cluster ended."""


def execute(job: Job, stop: Path) -> int:
    """What happens on the machine of the job: run it, and interrupt it once the file `stop` is there."""
    try:
        process = start(job)
    except OSError:
        return CANNOT_START
    told = False
    try:
        while True:
            try:
                return process.wait(SECONDS_BETWEEN_LOOKS)
            except subprocess.TimeoutExpired:
                if not told and stop.exists():
                    interrupt(process)
                    told = True
    finally:
        end_all([process])


class SubmititLauncher:
    """One Slurm job per run, all of them queued at once unless told otherwise.

    The folders of the sweep must be the same on every machine. Ctrl-C travels as a file beside the job's log.
    """

    def __init__(self, config: SubmititConfig, build: Build) -> None:
        self.config = config
        self._waiting: deque[tuple[int, Job]] = deque()
        self._running: dict[int, tuple[Job, Any]] = {}
        self._interrupted = False

    def __repr__(self) -> str:
        return f"SubmititLauncher({self.config!r})"

    def launch(self, jobs: Sequence[Job], at_once: int | None) -> Generator[Sequence[Ended], None, None]:
        self._waiting, self._running, self._interrupted = deque(enumerate(jobs)), {}, False
        room = at_once or (cores() if self.config.cluster == "local" else len(jobs))
        executor = self._executor(jobs[0].log.parent / "submitit") if jobs else None
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < room:
                    self._submit(executor, *self._waiting.popleft())
                time.sleep(SECONDS_BETWEEN_LOOKS)
                yield self._ended()
        finally:
            self._waiting.clear()
            self._end_all()

    def interrupt(self) -> None:
        self._waiting.clear()
        self._interrupted = True
        for job, submitted in self._running.values():
            _stop_file(job).touch()
            if submitted.state == "PENDING":
                submitted.cancel()

    def parameters(self) -> dict[str, Any]:
        """The settings in submitit's words."""
        config = self.config
        asked = {
            "timeout_min": config.timeout_min,
            "cpus_per_task": config.cpus,
            "gpus_per_node": config.gpus,
            "mem_gb": config.memory_gb,
            **{f"slurm_{name}": value for name, value in config.slurm.items()},
        }
        return {name: value for name, value in asked.items() if value is not None}

    def _executor(self, folder: Path) -> Any:
        """submitit's executor with the settings.

        Raises:
            CbrError: there is no Slurm here, or it does not know a setting.
        """
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=self.config.cluster)
            executor.update_parameters(**self.parameters())
        except Exception as error:
            raise CbrError(
                f"submitit cannot work like this: {error}",
                hint="without Slurm: --launcher '{use: cbr_launchers/submitit, cluster: local}'",
            ) from error
        return executor

    def _submit(self, executor: Any, position: int, job: Job) -> None:
        _stop_file(job).unlink(missing_ok=True)
        self._running[position] = job, executor.submit(execute, job, _stop_file(job))

    def _ended(self) -> list[Ended]:
        """Take the jobs that have ended off the running ones."""
        ended = [position for position, (_, submitted) in self._running.items() if submitted.done()]
        return [(position, self._code(*self._running.pop(position))) for position in ended]

    def _code(self, job: Job, submitted: Any) -> int:
        _stop_file(job).unlink(missing_ok=True)
        try:
            return int(submitted.result())
        except Exception as error:  # whatever the cluster did to it
            with job.log.open("a") as log:
                log.write(f"ended by the cluster: {error}\n")
            return INTERRUPTED if self._interrupted else LOST

    def _end_all(self) -> None:
        """Interrupt what runs, wait for it, then cancel it."""
        if not self._running:
            return
        self.interrupt()
        deadline = time.monotonic() + SECONDS_TO_STOP
        while self._running and time.monotonic() < deadline:
            self._ended()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        for job, submitted in self._running.values():
            submitted.cancel()
            _stop_file(job).unlink(missing_ok=True)


def _stop_file(job: Job) -> Path:
    return job.log.with_name(f"{job.log.name}.stop")
