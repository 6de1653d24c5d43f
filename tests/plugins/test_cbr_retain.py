"""Which executed actions are retained."""

from __future__ import annotations

import numpy as np
import pytest

from cbr_retain.config import LastKConfig
from cbr_retain.policies import LastK
from cbrcore import Action, Build
from cbrcore.interfaces import RetainItem

BUFFER = [RetainItem(None, Action(name, name), step, 0.0) for step, name in enumerate("abcd")]


@pytest.mark.parametrize(("k", "expected"), [(1, "d"), (3, "bcd"), (4, "abcd"), (9, "abcd")])
def test_last_k_picks_the_most_recent_ones_with_the_rewarded_one_last(k, expected):
    chosen = LastK(LastKConfig(k=k), Build()).select(BUFFER, np.random.default_rng(0))
    assert "".join(item.action.text for item in chosen) == expected


def test_the_default_is_the_papers_value_for_twc():
    assert LastKConfig().k == 1
