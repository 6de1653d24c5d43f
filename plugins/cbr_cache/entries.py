"""Key -> value, in a table of an SQLite file; a wrong entry is as good as none, and is counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from cbr_cache.checksums import Checksums
from cbr_cache.database import Damage, Database, Table
from cbr_cache.tally import Tally, shared_tally


class Entries:
    """The entries of one identity in a table.

    The first value of a key stays if two processes keep one; only a wrong one is replaced.

    Args:
        database: where the table is.
        identity: everything that the values depend on besides their keys: versions, settings, format.
        tally: counts wrong entries; None for the one that this process has of the file.
    """

    def __init__(self, database: Database, table: Table, identity: str, *, tally: Tally | None = None) -> None:
        self.identity = identity
        self._database = database
        self._checksums = Checksums(identity)
        self._tally = tally or shared_tally(f"{database.what} {database.path}")
        self._wrong: set[bytes] = set()
        identity_, key, value, checksum = table.columns
        self._select = f"SELECT {value}, {checksum} FROM {table.name} WHERE {identity_} = ? AND {key} = ?"
        self._insert = f"INTO {table.name} VALUES (?, ?, CAST(? AS {table.value_type}), ?)"

    def __repr__(self) -> str:
        return f"Entries({self._database!r}, {self.identity!r})"

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values that are there and right."""
        wanted = list(keys)

        def work(connection: sqlite3.Connection) -> list[tuple[bytes, Any]]:
            return [(key, self._row(connection, key)) for key in wanted]

        rows = self._database.run(work) or []
        return {key: row[0] for key, row in rows if row is not None and self._is_right(key, *row)}

    def find(self, key: bytes) -> bytes | None:
        """The value of one key, if it is there and right."""
        row = self._database.run(lambda connection: self._row(connection, key))
        return row[0] if row is not None and self._is_right(key, *row) else None

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Keep values."""
        rows = [(self.identity, key, value, self._checksums.of(key, value)) for key, value in values.items()]

        def work(connection: sqlite3.Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            for row in rows:
                wrong = row[1] in self._wrong
                connection.execute(f"INSERT OR {'REPLACE' if wrong else 'IGNORE'} {self._insert}", row)
                kept = self._row(connection, row[1])
                if kept is None or (wrong and kept != row[2:]):
                    raise Damage("an entry is not found where it was just written")
            connection.execute("COMMIT")
            return True

        if self._database.run(work):
            self._wrong.difference_update(values)

    def refuse(self, key: bytes, why: str) -> None:
        """The value of this key is wrong though its checksum is right; it will be replaced."""
        self._wrong.add(key)
        self._tally.add(key.hex(), why)

    def _row(self, connection: sqlite3.Connection, key: bytes) -> Any:
        """(value, checksum), None if there is none; of any type in a damaged file."""
        return connection.execute(self._select, (self.identity, key)).fetchone()

    def _is_right(self, key: bytes, value: object, checksum: object) -> bool:
        if isinstance(value, bytes) and checksum == self._checksums.of(key, value):
            return True
        self.refuse(key, "does not fit its checksum")
        return False
