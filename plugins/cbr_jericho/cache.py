"""Valid actions on disk: one SQLite file per story, shared by all runs, seeds and agents.

The cache is an aid, never a condition: what cannot be read or written, or is damaged, is searched anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cbr_cache.database import Database, Table
from cbr_cache.entries import Entries
from cbr_cache.tally import Tally

FORMAT = 4
"""Part of every key; a change of what an entry holds, or of how states are told apart, makes it grow."""

WAIT_S = 2.0
"""How long to wait for another process; a step has a time limit, and every entry can be searched for."""

TABLE = Table("valid", "identity", "state", "entry", value_type="TEXT")

UNUSABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What Python raises on an entry of another shape."""


NAME = "the cache of valid actions"


def _as_it_is(entry: Any) -> Any:
    return entry


class ActionCache:
    """Key of a state -> what the search found there, as JSON-able data.

    Args:
        path: the database file.
        identity: what the entries depend on besides the state: Jericho's version, the tagger.
        read: makes of an entry what `get` gives; one that it cannot read is wrong.

    Attributes:
        tally: counts wrong entries, whose states are searched anew. It says nothing: the other process does.
    """

    def __init__(self, path: Path, identity: str, read: Callable[[Any], Any] = _as_it_is) -> None:
        self.path = path
        self.tally = Tally(f"{NAME} {path}", logging.DEBUG)
        self._read = read
        self._database = Database(path, NAME, (TABLE,), patience=WAIT_S, keep_open=True)
        self._database.run(lambda connection: None)  # whatever keeps it from being opened is said at the start
        self._entries = Entries(self._database, TABLE, f"{FORMAT} {identity}", tally=self.tally)

    def __repr__(self) -> str:
        return f"ActionCache({str(self.path)!r}, {self._entries.identity!r})"

    def get(self, state: bytes) -> Any:
        """The entry of a state; None if there is none, or none that can be used."""
        text = self._entries.find(state)
        if text is None:
            return None
        try:
            return self._read(json.loads(text.decode()))
        except UNUSABLE as error:
            self._entries.refuse(state, f"has another shape ({type(error).__name__}: {error})")
            return None

    def put(self, state: bytes, entry: Any) -> None:
        """Keep an entry; the first one stays if two processes find the same."""
        self._entries.put({state: json.dumps(entry).encode()})

    def close(self) -> None:
        """Safe to call twice."""
        self._database.close()
