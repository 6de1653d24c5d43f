"""The worker process: one interpreter, driven through a pipe. Started by `client.py`; not meant to be typed.

It exists because native code hangs, crashes and ends its process on some commands. Each request gets one reply. A
search that may take long is announced first, with the state before it, so that the other side can go on in a new
worker if this one does not come back.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import traceback
from collections.abc import Callable

from cbr_jericho.protocol import Message, MessageReader, PipeClosed, write_message
from cbrcore.errors import CbrError

PARENT_CHECK_MS = 2000

REQUESTS = ("facts", "reset", "step", "resume", "gains", "figures")
"""What may be asked, after "open"; the names of the desk's methods."""


def main() -> None:
    """Serve until the other side closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the trainer, which then ends in good order
    requests, replies = take_pipes()
    threading.Thread(target=leave_with_parent, args=(requests, os.getppid()), daemon=True).start()
    try:
        serve(MessageReader(requests), replies)
    except PipeClosed:
        os._exit(0)  # nobody is left to be told; closing the interpreter down would only take time


def take_pipes() -> tuple[int, int]:
    """Private copies of standard input and output, in whose place the interpreter finds nothing: it reads file
    names from the one, and prints its complaints to the other."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, replies


def leave_with_parent(requests: int, parent: int) -> None:
    """End this process when the other side has gone, even in the middle of native code (which holds no lock)."""
    hangup = select.poll()
    hangup.register(requests, 0)
    while os.getppid() == parent and not hangup.poll(PARENT_CHECK_MS):
        pass
    os._exit(0)


def serve(requests: MessageReader, replies: int) -> None:
    """Answer requests; PipeClosed when there will be no more."""
    told = Told()
    logging.getLogger().addHandler(told)

    def send(message: Message) -> None:
        write_message(replies, {**message, "log": told.take()})

    first = requests.read()
    try:
        desk = open_desk(first, send)
    except CbrError as error:
        send({"refused": error.message, "hint": error.hint})
        return
    write_message(replies, {"opened": True})  # what was told meanwhile goes with the first reply
    while True:
        send(answer(desk, requests.read()))


def open_desk(request: Message, announce: Callable[[Message], None]) -> object:
    """Load the story; native code is imported here and not before."""
    from cbr_jericho.desk import Desk

    return Desk(request, announce)


def answer(desk: object, request: Message) -> Message:
    """The reply to one request; a fault of ours is told as such, with its traceback."""
    try:
        if request["do"] not in REQUESTS:
            raise ValueError(f"unknown request {request['do']!r}")
        reply: Message = getattr(desk, request["do"])(request)
        return reply
    except Exception:
        return {"fault": traceback.format_exc()}


class Told(logging.Handler):
    """Keeps warnings for the next reply, so that they reach the run's own log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())

    def take(self) -> list[str]:
        """The messages since the last call."""
        taken, self._messages = self._messages, []
        return taken


if __name__ == "__main__":
    main()
