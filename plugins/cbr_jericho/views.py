"""What a run remembers of views (or worlds): the valid actions that were found where each was met first.

It makes an approximate key reproducible. What is offered depends on the run alone, not on what a cache on disk
holds or on which of several engines is the faster one: an engine is told what is remembered with each command, and
what it finds itself is remembered in the order in which results are received. It is part of a checkpoint.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from itertools import islice
from typing import Any

LEVEL = 1
"""Of compression: views of one game are much alike, and a checkpoint should not take long."""

Entry = list[Any]
"""`search.Found` as plain data."""


class Views:
    """Key of a view -> what was found there first.

    Attributes:
        loads: how often all was replaced; an engine that was told of what was there before is of no use then.
    """

    def __init__(self) -> None:
        self.loads = 0
        self._found: dict[str, Entry] = {}

    def __repr__(self) -> str:
        return f"Views({len(self)})"

    def __len__(self) -> int:
        return len(self._found)

    def since(self, count: int) -> dict[str, Entry]:
        """All but the first `count`, the last one first: what is asked for at each step is little or nothing."""
        return dict(islice(reversed(self._found.items()), len(self) - count))

    def settle(self, key: str, entry: Entry) -> bool:
        """Remember an entry; whether it is what is remembered now, which it is not if another one came first."""
        return self._found.setdefault(key, entry) == entry

    def state(self) -> dict[str, str]:
        """Plain data."""
        return {"views": base64.b64encode(zlib.compress(json.dumps(self._found).encode(), LEVEL)).decode()}

    def load_state(self, state: Mapping[str, str]) -> None:
        """What `state` gave."""
        self.loads += 1
        self._found.clear()
        self._found.update(json.loads(zlib.decompress(base64.b64decode(state["views"]))))
