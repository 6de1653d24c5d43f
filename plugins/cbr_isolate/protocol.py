"""Messages between this process and a worker: four bytes of length, then JSON.

JSON and not pickle: what a damaged or foreign worker sends can then be wrong, but it cannot run code.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

Message = dict[str, Any]

HEADER_BYTES = 4
LARGEST_MESSAGE = 1 << 26
CHUNK = 1 << 16


class PipeClosed(Exception):
    """The other side has gone, or what it sent is no message."""


class TooSlow(Exception):
    """No whole message came in time."""


def write_message(pipe: int, message: Mapping[str, Any]) -> None:
    """Send one message.

    Args:
        pipe: file descriptor.

    Raises:
        PipeClosed: nobody reads it.
    """
    body = json.dumps(message, separators=(",", ":"), default=plain).encode()
    rest = memoryview(len(body).to_bytes(HEADER_BYTES, "big") + body)
    try:
        while rest:
            rest = rest[os.write(pipe, rest) :]
    except OSError as error:
        raise PipeClosed(str(error)) from error


def plain(value: Any) -> Any:
    """What JSON does not know as what it knows: numbers of other libraries, sets.

    Raises:
        TypeError: it is nothing that can be sent.
    """
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{value!r:.100} ({type(value).__name__}) cannot be sent to another process")


class MessageReader:
    """Reads messages from a file descriptor."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self._buffer = bytearray()
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def __repr__(self) -> str:
        return f"MessageReader({self.pipe})"

    def read(self, timeout_s: float | None = None) -> Message:
        """The next message.

        Args:
            timeout_s: None waits for ever.

        Raises:
            PipeClosed: the other side has gone, or sent something else.
            TooSlow: the time is up.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        size = int.from_bytes(self._take(HEADER_BYTES, deadline), "big")
        if size > LARGEST_MESSAGE:
            raise PipeClosed(f"a message of {size} bytes")
        try:
            message = json.loads(self._take(size, deadline))
        except ValueError as error:
            raise PipeClosed(f"no JSON: {error}") from error
        if not isinstance(message, dict):
            raise PipeClosed(f"no JSON object: {message!r:.80}")
        return message

    def _take(self, size: int, deadline: float | None) -> bytes:
        while len(self._buffer) < size:
            self._wait(deadline)
            try:
                received = os.read(self.pipe, CHUNK)
            except OSError as error:
                raise PipeClosed(str(error)) from error
            if not received:
                raise PipeClosed("the pipe was closed")
            self._buffer += received
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _wait(self, deadline: float | None) -> None:
        if deadline is not None:
            left = deadline - time.monotonic()
            if not self._poll.poll(max(0.0, left) * 1000):
                raise TooSlow
