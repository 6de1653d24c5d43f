"""What a run's folder holds, for tests of whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cbrcore.runs.checkpoint import latest_checkpoint, read_state

EXACT = ("metrics.jsonl", "results.json")
"""Files without a clock: equal runs give equal bytes."""
OF_A_MEMORY = ("memory/cases.jsonl", "memory/keys.safetensors")
"""The same, where the run has a memory."""


def same_run(left: Path, right: Path) -> None:
    kept = [(run / "memory").is_dir() for run in (left, right)]
    assert kept[0] == kept[1]
    for name in (*EXACT, *(OF_A_MEMORY if kept[0] else ())):
        assert (left / name).read_bytes() == (right / name).read_bytes(), name


def same(left: Path, right: Path) -> None:
    """The records, and all that the newest checkpoint holds but the clock."""
    same_run(left, right)
    one, other = (latest_checkpoint(run / "checkpoints") for run in (left, right))
    assert one is not None
    assert other is not None
    assert (one / "tensors.safetensors").read_bytes() == (other / "tensors.safetensors").read_bytes()
    states = [read_state(path)[0] for path in (one, other)]
    for state in states:
        state["progress"].pop("seconds")
        state.pop("recipe")
    assert states[0] == states[1]


def rows(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
