"""What W&B's offline files hold: LevelDB's log format around the messages that ``wandb sync`` would upload."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32768
FULL, LAST = 1, 4
"""Kinds of a chunk; a record in several chunks begins with 2, goes on with 3 and ends with 4."""


def chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(kind, content); 7 bytes stand before the first one, and what is too short at a block's end is padding."""
    assert data[:4] == b":W&B"
    position = 7
    while position + 7 <= len(data):
        if BLOCK - position % BLOCK < 7:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        yield kind, data[position + 7 : position + 7 + length]
        position += 7 + length


def records(path: Path) -> list[Any]:
    """The messages of a file, in the order in which they were sent."""
    from wandb.proto.wandb_internal_pb2 import Record

    found, begun = [], b""
    for kind, content in chunks(path.read_bytes()):
        begun += content
        if kind in (FULL, LAST):
            found.append(Record.FromString(begun))
            begun = b""
    return found


def files(folder: Path) -> list[Path]:
    """The offline files below `folder`, the earliest first."""
    return sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: (path.stat().st_mtime_ns, path))


def items(message: Any) -> dict[str, Any]:
    """name -> value of a message with items; nested names are joined with dots."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in message}


def series(folder: Path) -> dict[str, dict[int, float]]:
    """name -> step -> value, from all files: a later one adds to the earlier ones and replaces their values."""
    seen: dict[str, dict[int, float]] = {}
    for path in files(folder):
        for record in records(path):
            if record.WhichOneof("record_type") == "history":
                row = items(record.history.item)
                for name, value in row.items():
                    if not name.startswith("_"):
                        seen.setdefault(name, {})[row["_step"]] = value
    return seen


def config(path: Path) -> dict[str, Any]:
    """The configuration as it is in the end."""
    found: dict[str, Any] = {}
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind in ("run", "config"):
            found |= items((record.run.config if kind == "run" else record.config).update)
    return found


def summary(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for record in records(path):
        if record.WhichOneof("record_type") == "summary":
            found |= items(record.summary.update)
    return found
