"""A job as a process that ends with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable

from cbrcore.interfaces import Job

CANNOT_START = 127
"""Exit code of a command that cannot be started, as in a shell."""
SECONDS_TO_STOP = 30.0
"""How long a process that was told to stop may take before it is killed."""

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start the job in a session of its own, so that a terminal's Ctrl-C reaches it through its launcher alone.

    Raises:
        OSError: it cannot be started; the job's log says why.
    """
    with job.log.open("ab") as log:
        try:
            return subprocess.Popen(
                job.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **job.env},
                start_new_session=True,
                preexec_fn=_tie_to_parent(),
            )
        except OSError as error:
            log.write(f"cannot be started: {error}\n".encode())
            raise


def _tie_to_parent() -> Callable[[], None]:
    """What a new process does first: take signals, and on Linux ask for SIGTERM if its parent dies.

    A run that gets SIGTERM writes a checkpoint, so a killed sweep leaves nothing behind that still works.
    """
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def tie() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray blocks SIGINT in its workers
        if prctl is not None:
            prctl(_DEATH_SIGNAL, signal.SIGTERM)

    return tie


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C for one process; nothing if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)


def end_all(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Interrupt what still runs, wait for it, and kill what does not listen."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        interrupt(process)
    for process in running:
        try:
            process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
