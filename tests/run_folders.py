"""What a run's folder holds, for tests of whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXACT = ("metrics.jsonl", "results.json", "memory/cases.jsonl", "memory/keys.safetensors")
"""Files without a clock: equal runs give equal bytes."""


def same_run(left: Path, right: Path) -> None:
    for name in EXACT:
        assert (left / name).read_bytes() == (right / name).read_bytes(), name


def rows(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
