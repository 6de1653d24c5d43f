"""Shared fixtures. Tests run on one torch thread, without network, and never write outside tmp_path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def games_dir() -> Path:
    """The published games (CBR_GAMES). Skips without them, or fails where CBR_REQUIRE_GAMES=1."""
    value = os.environ.get("CBR_GAMES", "")
    if value and Path(value).is_dir():
        return Path(value).resolve()
    reason = "the published games are not here: set CBR_GAMES to the folder that holds twc/ and jericho/"
    if os.environ.get("CBR_REQUIRE_GAMES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
