"""Starts worker processes, talks to them, and notices when they hang or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import cbrcore
from cbr_jericho.protocol import Message, MessageReader, PipeClosed, TooSlow, write_message
from cbrcore.errors import GameError

START_TIMEOUT_S = 120.0
"""For loading Python, the story and maybe a spaCy model on a busy machine."""

LAST_WORDS_BYTES = 1000


class WorkerDied(Exception):
    """The worker crashed, ended, or did not answer in time; the text says which. It is gone."""


class Worker:
    """One worker process with one story open.

    Raises:
        GameError: the story or the tagger cannot be used.
        WorkerDied: something else went wrong.
    """

    def __init__(self, request: Message) -> None:
        self._process, self._stderr = _start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._replies = MessageReader(self._process.stdout.fileno())
        self.send(request)
        reply = self.receive(START_TIMEOUT_S)
        if "refused" in reply:
            self.close()
            raise GameError(reply["refused"], hint=reply["hint"])

    def __repr__(self) -> str:
        return f"Worker(pid={self.pid})"

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
        try:
            return self._replies.read(timeout_s)
        except TooSlow:
            self.close()
            raise WorkerDied(f"did not answer within {timeout_s:g} s") from None
        except PipeClosed as error:
            reason = self._how_it_ended()
            self.close()
            raise WorkerDied(reason) from error

    def _how_it_ended(self) -> str:
        """In words; a process that closed its pipe but lives on gets a second to end."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - LAST_WORDS_BYTES))
        words = self._stderr.read().decode(errors="replace").strip()
        return f"ended with status {status}" + (f": {words}" if words else "")

    def close(self) -> None:
        """End the process and release its pipes; safe to call twice."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        self._stderr.close()


def _start() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """A new process, and the file that takes its complaints; WorkerDied if the system has no room for it."""
    with ExitStack() as opened:
        try:
            stderr = opened.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cbr_jericho.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=_environment(),
                bufsize=0,
                process_group=0,  # a Ctrl-C at the terminal does not reach it
            )
        except OSError as error:
            raise WorkerDied(f"cannot be started: {error}") from error
        opened.pop_all()
        return process, stderr


def _environment() -> dict[str, str]:
    """Strings must not be hashed at random: sets of names decide which of two equal commands is offered."""
    here = [str(Path(__file__).parents[1]), str(Path(cbrcore.__file__).parents[1])]
    path = [*here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
