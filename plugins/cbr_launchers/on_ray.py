"""Runs on a Ray cluster: an actor per job, which holds its resources and its process."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError

from cbr_launchers.config import RayConfig
from cbr_launchers.processes import CANNOT_START, SECONDS_TO_STOP, end_all, interrupt, start
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Ended, Job

INTERRUPTED = 130
LOST = 1
"""Exit code of a job whose machine or actor is gone."""


class Worker:
    """Lives on a machine of the cluster with one job's process. Its methods may run at the same time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._tried = threading.Event()

    def __repr__(self) -> str:
        return f"Worker({self._process})"

    def start(self, job: Job) -> bool:
        """Whether the job could be started."""
        try:
            self._process = start(job)
        except OSError:
            return False
        finally:
            self._tried.set()
        return True

    def wait(self) -> int:
        """The exit code, once the job has ended."""
        self._tried.wait()
        return self._process.wait() if self._process else CANNOT_START

    def interrupt(self) -> None:
        """Ctrl-C for the job."""
        if self._process is not None:
            interrupt(self._process)

    def end(self) -> None:
        """The job ends, whatever it does."""
        if self._process is not None:
            end_all([self._process])


@dataclass(frozen=True)
class _Running:
    job: Job
    worker: Any
    started: Any
    code: Any


class RayLauncher:
    """One actor per job; as many at the same time as the cluster has room for, unless told otherwise."""

    def __init__(self, config: RayConfig, build: Build) -> None:
        self.config = config
        self._waiting: deque[tuple[int, Job]] = deque()
        self._running: dict[int, _Running] = {}

    def __repr__(self) -> str:
        return f"RayLauncher({self.config!r})"

    def launch(self, jobs: Sequence[Job], at_once: int | None) -> Generator[Sequence[Ended], None, None]:
        self._waiting, self._running = deque(enumerate(jobs)), {}
        mine = self._connect()
        try:
            room = min(at_once or len(jobs), self._room())
            while self._waiting or self._running:
                while self._waiting and len(self._running) < room:
                    self._start(*self._waiting.popleft())
                yield self._ended()
        finally:
            self._waiting.clear()
            self._end_all()
            if mine:
                ray.shutdown()

    def interrupt(self) -> None:
        self._waiting.clear()
        for running in self._running.values():
            begun, _ = ray.wait([running.started], timeout=0)
            if begun:
                running.worker.interrupt.remote()
            else:
                ray.kill(running.worker)  # it still waits for its resources

    def _connect(self) -> bool:
        """Join the cluster, or start one; whether that is to be undone.

        Raises:
            CbrError: there is none at the address.
        """
        if ray.is_initialized():
            return False
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody unless asked for
        try:
            with _own_signals():
                ray.init(address=self.config.address, log_to_driver=False, logging_level="ERROR")
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            said = str(error).strip().splitlines()[0]
            raise CbrError(
                f"no Ray cluster at {self.config.address!r}: {said}",
                hint="start one with 'ray start --head', or leave the address out for a local one",
            ) from error
        return True

    def _room(self) -> int:
        """How many jobs the whole cluster has the resources for.

        Raises:
            CbrError: not even one.
        """
        asked = {"CPU": self.config.cpus, "GPU": self.config.gpus, **self.config.resources}
        if self.config.memory_gb is not None:
            asked["memory"] = self.config.memory_gb * 2**30
        there = ray.cluster_resources()
        room = {name: int(there.get(name, 0) / amount) for name, amount in asked.items() if amount}
        scarce = min(room, key=lambda name: room[name])
        if not room[scarce]:
            raise CbrError(
                f"a run asks for {asked[scarce]:g} {scarce}, and the Ray cluster has {there.get(scarce, 0):g}",
                hint="ask for less, as in --launcher '{use: cbr_launchers/ray, cpus: 1}'",
            )
        return room[scarce]

    def _start(self, position: int, job: Job) -> None:
        memory = self.config.memory_gb
        asked = ray.remote(Worker).options(
            num_cpus=self.config.cpus,
            num_gpus=self.config.gpus,
            memory=None if memory is None else int(memory * 2**30),
            resources=self.config.resources or None,
            max_concurrency=3,  # it is interrupted while it waits
        )
        if not self.config.gpus:  # else it would see the GPUs of others
            job = replace(job, env={**job.env, "CUDA_VISIBLE_DEVICES": ""})
        worker = asked.remote()
        self._running[position] = _Running(job, worker, worker.start.remote(job), worker.wait.remote())

    def _ended(self) -> list[Ended]:
        """Take the jobs that have ended off the running ones; waits for one a little."""
        if not self._running:
            return []
        codes = {running.code: position for position, running in self._running.items()}
        ended, _ = ray.wait(list(codes), num_returns=1, timeout=0.3)
        return [(codes[code], self._code(self._running.pop(codes[code]))) for code in ended]

    def _code(self, running: _Running) -> int:
        try:
            return int(ray.get(running.code))
        except RayError as error:
            begun, _ = ray.wait([running.started], timeout=0)
            with running.job.log.open("a") as log:
                log.write(f"lost by Ray: {error}\n")
            return LOST if begun else INTERRUPTED

    def _end_all(self) -> None:
        """End what runs, gently first."""
        ends = [running.worker.end.remote() for running in self._running.values()]
        if ends:
            ray.wait(ends, num_returns=len(ends), timeout=SECONDS_TO_STOP + 5)
        for running in self._running.values():
            ray.kill(running.worker)


class _own_signals:  # noqa: N801 (reads as a function)
    """Ray takes SIGTERM for itself when it starts; a sweep keeps its own handler."""

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGTERM)

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
