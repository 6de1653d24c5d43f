"""The report's statistics and curves: worked examples by hand, and slow twins."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbr_report.curves import trailing_mean
from cbr_report.statistics import (
    RESAMPLES,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
    standard_deviation,
    summarize,
)

NUMBERS = st.floats(-1000, 1000)
RUNS = st.lists(NUMBERS, min_size=1, max_size=8)
SEVERAL = st.lists(NUMBERS, min_size=2, max_size=8)


def test_mean_and_deviation_by_hand():
    found = summarize([1.0, 2.0, 3.0, 4.0])
    assert (found.runs, found.mean, found.iqm) == (4, 2.5, 2.5)
    assert found.std == pytest.approx(math.sqrt(5 / 3))  # (2.25 + 0.25 + 0.25 + 2.25) / 3
    assert standard_deviation([5.0]) is None
    assert summarize([]) is None


@pytest.mark.parametrize(
    ("values", "iqm"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 4.5),  # two go at each end: 3, 4, 5, 6
        ([100, 0, 2, 1, 3], 2.0),  # one goes at each end: 1, 2, 3
        ([0, 1, 5], 2.0),  # none of three
        ([7], 7.0),
    ],
)
def test_interquartile_mean_by_hand(values, iqm):
    assert interquartile_mean(values) == iqm


def test_interquartile_means_of_several_rows_at_once():
    assert interquartile_mean([[4, 1, 2, 3], [0, 0, 0, 8]]).tolist() == [2.5, 0.0]


def test_bootstrap_of_three_runs_by_hand():
    """27 equally likely samples of (0, 0, 3), with means 0 (8 of them), 1 (12), 2 (6) and 3 (1)."""
    assert bootstrap_interval([0.0, 0.0, 3.0]) == (0.0, 3.0)  # 3 alone is 3.7 %, more than the tail
    assert bootstrap_interval([0.0, 0.0, 3.0], level=0.9) == (0.0, 2.0)
    assert bootstrap_interval([0.0, 0.0, 3.0], level=0.3) == (1.0, 1.0)  # the 35th to the 65th percentile


def test_one_or_two_runs_have_no_interval_and_equal_runs_a_point():
    """Of two runs, the interval would be from one to the other, whatever they are."""
    assert bootstrap_interval([3.0]) is None
    assert bootstrap_interval([0.0, 1.0]) is None
    assert (summarize([0.0, 1.0]).low, summarize([0.0, 1.0]).high) == (None, None)
    assert bootstrap_interval([3.0, 3.0, 3.0]) == (3.0, 3.0)


def test_bootstrap_equals_the_loop_that_it_stands_for():
    values, rng, found = [3.0, 1.0, 4.0, 1.5, 9.0], np.random.Generator(np.random.PCG64(0)), []
    drawn = rng.integers(5, size=(RESAMPLES, 5)).tolist()
    for sample in drawn:
        middle = sorted(values[run] for run in sample)[1:4]
        found.append(sum(middle) / 3)
    assert bootstrap_interval(values) == pytest.approx(tuple(np.quantile(found, [0.025, 0.975])))


@given(RUNS)
def test_all_lies_between_the_smallest_and_the_largest(values):
    found = summarize(values)
    slack = 1e-9 * (1 + max(map(abs, values)))
    for number in (found.mean, found.iqm, found.low, found.high):
        assert number is None or min(values) - slack <= number <= max(values) + slack
    assert found.low is None or found.low <= found.high


def test_probability_of_improvement_by_hand():
    """(1, 2) against (1, 3), lower is better: a tie, ahead, behind, ahead."""
    assert probability_of_improvement([1, 2], [1, 3], better="lower") == 2.5 / 4
    assert probability_of_improvement([1, 2], [1, 3], better="higher") == 1.5 / 4


@pytest.mark.parametrize(("ours", "theirs"), [([], [1, 2]), ([1], [2]), ([1, 2], [3]), ([1], [2, 3])])
def test_a_single_run_is_ahead_of_nobody(ours, theirs):
    assert probability_of_improvement(ours, theirs, better="lower") is None


@given(SEVERAL, SEVERAL, st.sampled_from(["lower", "higher"]))
def test_probability_of_improvement_equals_its_definition(ours, theirs, better):
    pairs = [
        1.0 if (a < b) == (better == "lower") and a != b else 0.5 if a == b else 0.0
        for a, b in product(ours, theirs)
    ]
    found = probability_of_improvement(ours, theirs, better=better)
    assert found == pytest.approx(sum(pairs) / len(pairs))
    assert found + probability_of_improvement(theirs, ours, better=better) == pytest.approx(1.0)


def test_trailing_mean_by_hand():
    assert trailing_mean([2.0, 4.0, 6.0, 8.0], 2).tolist() == [2.0, 3.0, 5.0, 7.0]


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.integers(1, 25))
def test_trailing_mean_equals_its_definition(values, window):
    slow = [np.mean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]
    assert trailing_mean(values, window) == pytest.approx(slow, abs=1e-6)
