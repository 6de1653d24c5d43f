"""Which executed actions are retained."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cbr_retain.config import LastKConfig, TdErrorConfig
from cbr_retain.policies import LastK, RewardedOnly, TdError, probabilities
from cbrcore import Action, Build, NoSettings
from cbrcore.interfaces import RetainItem
from cbrcore.testing import RetainPolicySuite

BUFFER = [RetainItem(None, Action(name, name), step, 0.0) for step, name in enumerate("abcd")]
DRAWS = 4000
MARGIN = 0.03
"""Of a share among DRAWS draws; its standard deviation is below 0.008."""


class TestLastKContract(RetainPolicySuite):
    def make(self, build: Build) -> LastK:
        return LastK(LastKConfig(k=3), build)


class TestRewardedOnlyContract(RetainPolicySuite):
    def make(self, build: Build) -> RewardedOnly:
        return RewardedOnly(NoSettings(), build)


class TestTdErrorContract(RetainPolicySuite):
    def make(self, build: Build) -> TdError:
        return TdError(TdErrorConfig(), build)


# --- last_k, rewarded_only ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "expected"), [(1, "d"), (3, "bcd"), (4, "abcd"), (9, "abcd")])
def test_last_k_picks_the_most_recent_ones_with_the_rewarded_one_last(k, expected):
    chosen = LastK(LastKConfig(k=k), Build()).select(BUFFER, np.random.default_rng(0))
    assert names(chosen) == expected


def test_the_defaults_are_the_papers_values():
    assert LastKConfig().k == 1  # TWC
    assert TdErrorConfig().k == 3  # Jericho, where the paper tries it


def test_rewarded_only_picks_the_rewarded_one_whatever_came_before():
    for length in (1, 2, 4):
        assert names(RewardedOnly(NoSettings(), Build()).select(BUFFER[:length], rng())) == "abcd"[length - 1]


# --- td_error -----------------------------------------------------------------------------------------------


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def names(items) -> str:
    return "".join(item.action.text for item in items)


def buffer(*errors: float | None) -> list[RetainItem]:
    """Actions a, b, c ... with these TD errors, then the rewarded one, z, whose error is not known yet."""
    key = torch.ones(2)
    earlier = [
        RetainItem(key, Action("abcdefgh"[i], "look"), i, 0.0, td_error=error) for i, error in enumerate(errors)
    ]
    return [*earlier, RetainItem(key, Action("z", "look"), len(errors), 1.0)]


def select(items: list[RetainItem], *, k: int, seed: int = 0) -> str:
    return names(TdError(TdErrorConfig(k=k), Build()).select(items, rng(seed)))


def shares(items: list[RetainItem], *, k: int) -> dict[str, float]:
    """How often each action is selected among DRAWS selections of one generator."""
    policy, stream = TdError(TdErrorConfig(k=k), Build()), rng(7)
    counts = Counter(name for _ in range(DRAWS) for name in names(policy.select(items, stream)))
    return {name: count / DRAWS for name, count in counts.items()}


def test_probabilities_by_hand():
    """|-1|, |3|, |0|, |6| of 10 in all."""
    assert probabilities([-1.0, 3.0, 0.0, 6.0]).tolist() == pytest.approx([0.1, 0.3, 0.0, 0.6])


def test_errors_of_zero_are_all_alike():
    assert probabilities([0.0, 0.0, 0.0, 0.0]).tolist() == [0.25] * 4


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_probabilities_are_a_distribution_for_any_finite_errors(errors):
    shares_ = probabilities(errors)
    assert (shares_ >= 0).all()
    assert shares_.sum() == pytest.approx(1.0)


def test_one_draw_is_in_proportion_to_the_size_of_the_error():
    found = shares(buffer(-0.1, 0.3, 0.0, 0.6), k=2)
    assert "c" not in found
    assert found["z"] == 1.0
    assert [found[name] for name in "abd"] == pytest.approx([0.1, 0.3, 0.6], abs=MARGIN)


def test_two_draws_without_replacement_by_hand():
    """a, b, c with 1, 3, 6 of 10. a is drawn first (.1), after b (.3 * 1/7) or after c (.6 * 1/4), and so on."""
    found = shares(buffer(0.1, -0.3, 0.6), k=3)
    assert found["a"] == pytest.approx(0.1 + 0.3 * 1 / 7 + 0.6 * 1 / 4, abs=MARGIN)  # 0.293
    assert found["b"] == pytest.approx(0.3 + 0.1 * 3 / 9 + 0.6 * 3 / 4, abs=MARGIN)  # 0.783
    assert found["c"] == pytest.approx(0.6 + 0.1 * 6 / 9 + 0.3 * 6 / 7, abs=MARGIN)  # 0.924
    assert sum(found.values()) == pytest.approx(3)


def test_errors_of_zero_are_drawn_alike_once_the_others_are_taken():
    found = shares(buffer(0.0, 0.0, 0.5, 0.0), k=3)
    assert found["c"] == 1.0
    assert [found[name] for name in "abd"] == pytest.approx([1 / 3] * 3, abs=MARGIN)


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf])
def test_an_error_that_is_not_known_is_not_drawn(unknown):
    assert {select(buffer(unknown, 0.1, unknown), k=9, seed=seed) for seed in range(20)} == {"bz"}


def test_an_action_without_a_key_is_not_drawn():
    items = buffer(5.0, 0.1, 5.0)
    items[0], items[2] = (replace(items[place], key=None) for place in (0, 2))
    assert {select(items, k=3, seed=seed) for seed in range(20)} == {"bz"}


def test_the_rewarded_action_comes_last_and_is_never_drawn():
    items = buffer(0.1, 0.1)
    items[-1] = replace(items[-1], td_error=1e9)
    assert {select(items, k=2, seed=seed) for seed in range(40)} == {"az", "bz"}


@pytest.mark.parametrize(("k", "expected"), [(1, "z"), (4, "abcz"), (9, "abcz")])
def test_at_most_k_are_selected_oldest_first(k, expected):
    assert select(buffer(0.2, 0.1, 0.3), k=k) == expected


def test_the_first_step_of_an_episode_can_be_rewarded():
    assert select(buffer(), k=3) == "z"
