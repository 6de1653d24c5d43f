"""Ctrl-C: the first one asks the run to stop at the next safe point, the second one stops at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Set by the first SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested


@contextmanager
def graceful_interrupt() -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a `StopRequest`; a second signal raises KeyboardInterrupt."""
    stop = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
