"""Runs as processes on this machine."""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Generator, Sequence

from cbr_launchers.processes import CANNOT_START, cores, end_all, interrupt, start
from cbrcore.config import NoSettings
from cbrcore.interfaces import Build, Ended, Job

SECONDS_BETWEEN_LOOKS = 0.1


class LocalLauncher:
    """One process per job; as many at the same time as there are cores, unless told otherwise."""

    def __init__(self, config: NoSettings, build: Build) -> None:
        self._waiting: deque[tuple[int, Job]] = deque()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __repr__(self) -> str:
        return f"LocalLauncher({len(self._running)} running, {len(self._waiting)} waiting)"

    def launch(self, jobs: Sequence[Job], at_once: int | None) -> Generator[Sequence[Ended], None, None]:
        self._waiting = deque(enumerate(jobs))
        self._running = {}
        try:
            while self._waiting or self._running:
                unable = self._fill(at_once or cores())
                time.sleep(SECONDS_BETWEEN_LOOKS)
                yield [*unable, *self._ended()]
        finally:
            self._waiting.clear()
            end_all(self._running.values())

    def interrupt(self) -> None:
        self._waiting.clear()
        for process in self._running.values():
            interrupt(process)

    def _fill(self, room: int) -> list[Ended]:
        """Start jobs while there is room; returns those that cannot be started."""
        unable = []
        while self._waiting and len(self._running) < room:
            position, job = self._waiting.popleft()
            try:
                self._running[position] = start(job)
            except OSError:
                unable.append((position, CANNOT_START))
        return unable

    def _ended(self) -> list[Ended]:
        """Take the processes that have ended off the running ones."""
        found = [(at, code) for at, process in self._running.items() if (code := process.poll()) is not None]
        for at, _ in found:
            del self._running[at]
        return found
