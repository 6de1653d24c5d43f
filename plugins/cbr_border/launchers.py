"""The border around a launcher: each job ends once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from cbr_border.values import Border, Kind, failing, short
from cbrcore.interfaces import Ended, Job, Launcher


def _launched(it: Border, given: Any, jobs: Sequence[Job], *_: Any) -> Any:
    return _ended(it, it.a(Generator, given, "a generator"), set(range(len(jobs))))


def _ended(it: Border, launched: Any, left: set[int]) -> Generator[Sequence[Ended], None, None]:
    """What a launcher yields: each job ends once. An interrupt (the border's `memo`) leaves those that wait."""
    done, it.memo = object(), False
    try:
        while True:
            with failing(it, "failed in launch"):
                some = next(launched, done)
            if some is done:
                break
            it.method = "launch"
            left -= _positions(it, some, left)
            it.method = ""
            yield some  # type: ignore[misc]
        if left and not it.memo:
            it.method = "launch"
            it.refuse(f"no exit code of {len(left)} jobs", "one of each job")
    finally:
        with failing(it, "failed in launch"):
            launched.close()


def _positions(it: Border, some: Any, left: set[int]) -> set[int]:
    found = set[int]()
    for ended in it.a(list | tuple, some, "a list of what has ended"):
        if not (isinstance(ended, tuple) and len(ended) == 2 and all(isinstance(each, int) for each in ended)):
            it.refuse(short(ended), "a position and an exit code")
        if ended[0] not in left - found:
            it.refuse(f"the position {ended[0]}", "one of a job that has not ended")
        found.add(ended[0])
    return found


def _interrupted(it: Border, *_: Any) -> None:
    it.memo = True


LAUNCHERS = Kind("launcher", Launcher, {"launch": _launched, "interrupt": _interrupted})
