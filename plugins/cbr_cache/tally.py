"""How many entries of a cache were wrong. They are made anew, so it is said once, not for each."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass
from weakref import WeakValueDictionary

log = logging.getLogger(__name__)


@dataclass
class _Count:
    what: str
    level: int
    entries: int = 0

    def tell_total(self) -> None:
        """The first one was told when it was met."""
        if self.entries > 1:
            log.log(self.level, "%s: %d entries in all were wrong and were made anew", self.what, self.entries)


class Tally:
    """Counts wrong entries: a warning for the first, and the total when nobody needs the tally any more.

    Args:
        what: the cache, in words, with its path.
        level: at which it is said; a process that reports to another one keeps quiet.
    """

    def __init__(self, what: str, level: int = logging.WARNING) -> None:
        self._count = _Count(what, level)
        weakref.finalize(self, self._count.tell_total)

    def __repr__(self) -> str:
        return f"Tally({self._count.what!r}, {self.entries})"

    @property
    def entries(self) -> int:
        """Wrong entries so far."""
        return self._count.entries

    def add(self, entry: str, why: str) -> None:
        """Count an entry; each is named at level DEBUG."""
        count = self._count
        count.entries += 1
        log.debug("%s: the entry %s %s", count.what, entry, why)
        if count.entries == 1:
            log.log(count.level, "%s: an entry %s; it is made anew, and further ones are counted", count.what, why)


_living: WeakValueDictionary[str, Tally] = WeakValueDictionary()


def shared_tally(what: str) -> Tally:
    """The tally of a cache that several parts of this process use at the same time: what it says is said once."""
    return _living.setdefault(what, Tally(what))
