"""An SQLite file that is an aid and never a condition: what it cannot give is made anew."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

MAIN_CODE = 0xFF
"""Of an SQLite error code: the rest are details."""

FROM_OUTSIDE = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_AUTH,
    )
)
"""Errors that are not the content's: a lock, a full disk, a folder without permission. Any other means damage,
since the statements are always the same."""


FAILURES = (sqlite3.Error, UnicodeError, OSError)
"""What Python raises; UnicodeError where a message of SQLite quotes a damaged file."""


class Damage(sqlite3.DatabaseError):
    """The file does not keep what was written to it."""


class Table(NamedTuple):
    """A table of checked entries, and what its columns are called.

    Attributes:
        identity: column of what made the entry.
        value_type: "BLOB", or "TEXT" for values that people may want to read.
    """

    name: str
    identity: str
    key: str
    value: str
    value_type: str = "BLOB"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.identity, self.key, self.value, "checksum")


class Database:
    """The file of a cache. Several processes may use it at once.

    A file that is no database, or a damaged one, is put aside (`NAME.damaged`) and begun anew. One that is locked,
    or that cannot be opened or written, is not used any more. Both are said in one warning.

    Args:
        path: the file; made with its folders if it is not there.
        what: names the cache in messages.
        tables: what is in it. A table of another shape, of another version of this program, is emptied.
        patience: seconds to wait for another process's lock.
        keep_open: False for processes that may fork: a connection then lives for one piece of work.
    """

    def __init__(
        self, path: Path, what: str, tables: tuple[Table, ...], *, patience: float = 5.0, keep_open: bool = False
    ) -> None:
        self.path = path
        self.what = what
        self._tables = tables
        self._patience = patience
        self._keep_open = keep_open
        self._connection: sqlite3.Connection | None = None
        self._usable = True

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r}{'' if self._usable else ', unusable'})"

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` returns; None if the file cannot be used. It runs again if the file was begun anew."""
        for _ in range(2):
            if not self._usable:
                break
            try:
                return work(self._connection or self._open())
            except FAILURES as error:
                self._disconnect()
                if not _is_damage(error) or not self._put_aside(error):
                    self._give_up(error)
            finally:
                if not self._keep_open:
                    self._disconnect()
        return None

    def close(self) -> None:
        """Nothing is found or kept from now on; safe to call twice."""
        self._usable = False
        self._disconnect()

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=self._patience, isolation_level=None)
        try:
            connection.text_factory = bytes  # a damaged text need not be text
            _share(connection, self._patience)
            connection.execute("PRAGMA synchronous=NORMAL")
            for table in self._tables:
                _prepare(connection, table)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _put_aside(self, error: Exception) -> bool:
        """Make room for a new file; whether that worked."""
        try:
            os.replace(self.path, f"{self.path}.damaged")
            for suffix in ("-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError:
            return False
        log.warning("%s was damaged (%s) and is begun anew: %s", self.what, error, self.path)
        return True

    def _give_up(self, error: Exception) -> None:
        self._usable = False
        log.warning("%s is not used, what it holds is made anew: %s: %s", self.what, self.path, error)


def _is_damage(error: Exception) -> bool:
    if isinstance(error, OSError):
        return False
    code: int = vars(error).get("sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # Python's own errors have none
    return code & MAIN_CODE not in FROM_OUTSIDE


def _share(connection: sqlite3.Connection, patience: float) -> None:
    """Let a writer and readers in together. SQLite itself does not wait where others look at a new file."""
    until = time.monotonic() + patience
    connection.execute("PRAGMA busy_timeout=0")  # two that wait for each other would wait in vain
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA busy_timeout={round(patience * 1000)}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & MAIN_CODE != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(0.01)


def _prepare(connection: sqlite3.Connection, table: Table) -> None:
    """Make the table if it is not there, or has other columns."""
    if _columns(connection, table) == table.columns:
        return
    connection.execute("BEGIN IMMEDIATE")
    if _columns(connection, table) != table.columns:  # no other process was faster
        identity, key, value, checksum = table.columns
        connection.execute(f"DROP TABLE IF EXISTS {table.name}")
        connection.execute(
            f"CREATE TABLE {table.name} ({identity} TEXT, {key} BLOB, {value} {table.value_type}, {checksum} BLOB,"
            f" PRIMARY KEY ({identity}, {key})) WITHOUT ROWID"
        )
    connection.execute("COMMIT")


def _columns(connection: sqlite3.Connection, table: Table) -> tuple[str, ...]:
    rows = connection.execute(f"PRAGMA table_info({table.name})")
    return tuple(row[1].decode(errors="replace") for row in rows)
