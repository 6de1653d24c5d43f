"""Valid actions on disk: one SQLite file per story, shared by all runs, seeds and agents.

The cache is an aid, never a condition: what cannot be read or written is searched anew.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

FORMAT = 2
"""Part of every key; a change of what an entry holds, or of how states are told apart, makes it grow."""

WAIT_S = 20.0
"""How long a writer waits for another process."""


class ActionCache:
    """Key of a state -> what the search found there, as JSON-able data.

    Args:
        path: the database file.
        identity: what the entries depend on besides the state: Jericho's version, the tagger.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self.identity = f"{FORMAT} {identity}"
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._open()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def __repr__(self) -> str:
        return f"ActionCache({str(self.path)!r}, {self.identity!r})"

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS valid (identity TEXT, state BLOB, entry TEXT,"
            " PRIMARY KEY (identity, state)) WITHOUT ROWID"
        )
        return connection

    def get(self, state: bytes) -> Any:
        """The entry of a state, None if there is none."""
        if self._connection is None:
            return None
        try:
            query = "SELECT entry FROM valid WHERE identity = ? AND state = ?"
            row = self._connection.execute(query, (self.identity, state)).fetchone()
            return None if row is None else json.loads(row[0])
        except (sqlite3.Error, ValueError) as error:
            self._give_up(error)
            return None

    def put(self, state: bytes, entry: Any) -> None:
        """Keep an entry; the first one stays if two processes find the same."""
        if self._connection is None:
            return
        try:
            self._connection.execute(
                "INSERT OR IGNORE INTO valid VALUES (?, ?, ?)", (self.identity, state, json.dumps(entry))
            )
        except sqlite3.Error as error:
            self._give_up(error)

    def close(self) -> None:
        """Safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: Exception) -> None:
        """Go on without the cache."""
        log.warning("the cache of valid actions %s is not used: %s", self.path, error)
        self.close()
