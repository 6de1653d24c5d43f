"""Starts worker processes, talks to them, and notices when they hang or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import cbrcore
from cbr_isolate.protocol import Message, MessageReader, PipeClosed, TooSlow, write_message
from cbrcore.errors import GameError

START_TIMEOUT_S = 120.0
"""For loading Python and what the worker plays (a story, maybe a spaCy model) on a busy machine."""

LAST_WORDS_BYTES = 1000
MOST_COMPLAINTS_BYTES = 1 << 20
"""What a worker prints is kept up to here, then thrown away."""


class WorkerDied(Exception):
    """The worker crashed, ended, or did not answer in time; the text says which. It is gone."""


class WorkerEnded(WorkerDied):
    """It crashed or ended; it was not slow."""


class Worker:
    """One worker process, ready for requests.

    Args:
        module: is run as the process; its `main` is `worker.work`.
        request: the first message.
        in_scratch: whether it works in its scratch folder instead of in this process's own. The folder is new, its
            temporary files are there, and it goes with the worker.

    Attributes:
        opened: its first reply.

    Raises:
        GameError: it refuses the request.
        WorkerDied: something else went wrong.
    """

    def __init__(self, module: str, request: Message, *, in_scratch: bool = False) -> None:
        self._scratch, self._group_ended = _new_folder(), False
        try:
            self._process, self._stderr = _start(module, self._scratch.name, in_scratch=in_scratch)
        except BaseException:
            self._leave_scratch()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._replies = MessageReader(self._process.stdout.fileno())
        self.send({**request, "scratch": self._scratch.name})
        try:
            self.opened = self.receive(START_TIMEOUT_S)
        except BaseException:  # an interrupt as well
            self.close()
            raise
        if "refused" in self.opened:
            self.close()
            raise GameError(self.opened["refused"], hint=self.opened["hint"])

    def __repr__(self) -> str:
        return f"Worker(pid={self.pid})"

    @property
    def lives(self) -> bool:
        """Whether the process has not ended."""
        if self._process.poll() is None:
            return True
        self._end_group()
        return False

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, request: Message) -> None:
        """Send a request; a worker that is gone is noticed when its reply is read."""
        try:
            write_message(self._requests, request)
        except PipeClosed:
            return

    def receive(self, timeout_s: float) -> Message:
        """The next message.

        Raises:
            WorkerDied: there will be none; the process has been ended.
        """
        if os.fstat(self._stderr.fileno()).st_size > MOST_COMPLAINTS_BYTES:
            os.ftruncate(self._stderr.fileno(), 0)
        try:
            return self._replies.read(timeout_s)
        except TooSlow:
            self.close()
            raise WorkerDied(f"did not answer within {timeout_s:g} s") from None
        except PipeClosed as error:
            reason = self._how_it_ended()
            self.close()
            raise WorkerEnded(reason) from error

    def _how_it_ended(self) -> str:
        """In words; a process that closed its pipe but lives on gets a second to end."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        self._end_group()
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - LAST_WORDS_BYTES))
        words = self._stderr.read().decode(errors="replace").strip()
        return f"ended with status {status}" + (f": {words}" if words else "")

    def close(self) -> None:
        """End the process, with what it started in its group, and release its pipes; safe to call twice."""
        self._end_group()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        self._stderr.close()
        self._leave_scratch()

    def _end_group(self) -> None:
        """Once: end the process, or what it has left behind, as soon as it is known to have ended: its number may
        be another's later."""
        if not self._group_ended:
            self._group_ended = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _leave_scratch(self) -> None:
        with suppress(OSError):
            os.rmdir(self._scratch.name)  # an empty one goes even where no more files can be opened
        self._scratch.cleanup()


def _new_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="cbr-engine-", ignore_cleanup_errors=True)
    except OSError as error:
        raise WorkerDied(f"cannot be started: {error}") from error


def _start(module: str, scratch: str, *, in_scratch: bool) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """A new process, and the file that takes its complaints; WorkerDied if the system has no room for it."""
    with ExitStack() as opened:
        try:
            stderr = opened.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                cwd=scratch if in_scratch else None,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**child_environment(), "TMPDIR": scratch},
                bufsize=0,
                process_group=0,  # a Ctrl-C at the terminal does not reach it
            )
        except OSError as error:
            raise WorkerDied(f"cannot be started: {error}") from error
        opened.pop_all()
        return process, stderr


def child_environment() -> dict[str, str]:
    """Modules are found where this process finds them. Strings must not be hashed at random: sets of names decide
    which of two equal commands is offered."""
    path = [
        str(Path(__file__).parents[1]),
        str(Path(cbrcore.__file__).parents[1]),
        *map(os.path.abspath, sys.path),
    ]
    return {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
