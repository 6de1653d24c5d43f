"""The worker process: one interpreter, driven through a pipe. Not meant to be typed: `supervisor.py` starts it.

It exists because native code hangs, crashes and ends its process on some commands. A search that may take long is
announced first, with the state before it, so that the other side can go on in a new worker if this one fails.
"""

from __future__ import annotations

from cbr_isolate.protocol import Message
from cbr_isolate.worker import Announce, work

REQUESTS = ("facts", "reset", "step", "look_again", "resume", "gains", "figures")
"""What may be asked, after the story was opened; the names of the desk's methods."""


def open_desk(request: Message, announce: Announce) -> object:
    """Load the story; native code is imported here and not before."""
    from cbr_jericho.desk import Desk

    return Desk(request, announce)


if __name__ == "__main__":
    work(open_desk, REQUESTS)
