"""The other side of `client.Worker`: a process that answers requests which come through a pipe.

It exists because what it runs may hang, crash or end its process. Each request gets one reply; a desk may announce
something before it.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Collection
from functools import partial

from cbr_isolate.protocol import Message, MessageReader, PipeClosed, write_message
from cbrcore.errors import CbrError

PARENT_CHECK_MS = 2000
MOST_TOLD = 100

Announce = Callable[[Message], None]
"""Sends a message before the reply."""


def work(open_desk: Callable[[Message, Announce], object], requests: Collection[str]) -> None:
    """Serve until the other side closes the pipe.

    Args:
        open_desk: what answers, made from the first message.
        requests: the names of its methods that may be asked for. Each takes a request and gives the reply.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the trainer, which then ends in good order
    asked, replies = take_pipes()
    reader, scratch = MessageReader(asked), None
    try:
        first = reader.read()
        scratch = first["scratch"]
        watch = threading.Thread(target=leave_with_parent, args=(asked, os.getppid(), scratch), daemon=True)
        watch.start()
        serve(reader, replies, partial(open_desk, first), requests)
    except PipeClosed:
        leave(scratch)


def take_pipes() -> tuple[int, int]:
    """Private copies of standard input and output. In their place what runs here finds nothing to read, and its
    prints go where its complaints go."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return requests, replies


def leave_with_parent(requests: int, parent: int, scratch: str | None) -> None:
    """End this process when the other side has gone, even in the middle of native code (which holds no lock)."""
    hangup = select.poll()
    hangup.register(requests, 0)
    while os.getppid() == parent and not hangup.poll(PARENT_CHECK_MS):
        pass
    leave(scratch)


def leave(scratch: str | None) -> None:
    """End at once: nobody is left to be told, and closing the interpreter down would only take time."""
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


def serve(
    requests: MessageReader, replies: int, open_desk: Callable[[Announce], object], known: Collection[str]
) -> None:
    """Answer requests; PipeClosed when there will be no more."""
    told = Told()
    logging.getLogger().addHandler(told)

    def send(message: Message) -> None:
        write_message(replies, {**message, "log": told.take()})

    try:
        desk = open_desk(send)
    except CbrError as error:
        send({"refused": error.message, "hint": error.hint})
        return
    write_message(replies, {"opened": True})  # what was told meanwhile goes with the first reply
    while True:
        send(answer(desk, requests.read(), known))


def answer(desk: object, request: Message, known: Collection[str]) -> Message:
    """The reply to one request; a fault is told as such, with its traceback."""
    try:
        if request["do"] not in known:
            raise ValueError(f"unknown request {request['do']!r}")
        reply: Message = getattr(desk, request["do"])(request)
        return reply
    except (Exception, SystemExit):
        return {"fault": traceback.format_exc()}


class Told(logging.Handler):
    """Keeps warnings for the next reply, so that they reach the run's own log: the first `MOST_TOLD` of them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._messages) < MOST_TOLD:
            self._messages.append(record.getMessage())

    def take(self) -> list[str]:
        """The messages since the last call."""
        taken, self._messages = self._messages, []
        return taken
