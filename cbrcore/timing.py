"""Where the time of a run goes: wall-clock seconds per part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up seconds by part name. Parts do not nest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def __repr__(self) -> str:
        return f"Stopwatch({ {name: round(value, 2) for name, value in self.seconds.items()} })"

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time spent inside under `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def shares(self, total: float) -> dict[str, float]:
        """Each part's share of `total` seconds."""
        return {name: value / total if total else 0.0 for name, value in sorted(self.seconds.items())}
