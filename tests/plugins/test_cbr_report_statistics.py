"""The report's statistics, curves and t-SNE: worked examples by hand, and slow twins."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbrcore.errors import CbrError
from cbrcore.report.curves import trailing_mean
from cbrcore.report.statistics import (
    RESAMPLES,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
    standard_deviation,
    summarize,
)
from cbrcore.report.tsne import divergence, gradient, joint_similarities, row_similarities, tsne

NUMBERS = st.floats(-1000, 1000)
RUNS = st.lists(NUMBERS, min_size=1, max_size=8)


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


def test_bootstrap_of_two_runs_by_hand():
    """Four equally likely samples of (0, 1): 00, 01, 10, 11 with means 0, 1/2, 1/2, 1."""
    assert bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)
    assert bootstrap_interval([0.0, 1.0], level=0.4) == (0.5, 0.5)  # the 30th to the 70th percentile


def test_a_single_run_has_no_interval_and_equal_runs_a_point():
    assert bootstrap_interval([3.0]) is None
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
    assert probability_of_improvement([], [1], better="lower") is None


@given(RUNS, RUNS, st.sampled_from(["lower", "higher"]))
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


# t-SNE

CLUSTERS = np.repeat(np.eye(3) * 12, 15, axis=0) + np.random.default_rng(1).normal(size=(45, 3))
LABELS = np.repeat(range(3), 15)


def test_two_equally_near_points_share_by_hand():
    """Two neighbours at one distance: 1/2 each, a perplexity of 2."""
    assert row_similarities(np.array([0.0, 4.0, 4.0]), 0, 2.0).tolist() == pytest.approx([0.0, 0.5, 0.5])


def test_every_point_has_the_wanted_perplexity():
    distances = ((CLUSTERS[:, None] - CLUSTERS[None]) ** 2).sum(axis=-1)
    for at, row in enumerate(distances):
        shares = row_similarities(row, at, 10.0)
        some = shares[shares > 0]
        assert np.exp(-(some * np.log(some)).sum()) == pytest.approx(10.0, rel=1e-4)
        assert (shares[at], shares.sum()) == (0.0, pytest.approx(1.0))


def test_the_gradient_is_that_of_the_divergence():
    rng = np.random.default_rng(0)
    p, points, step = joint_similarities(CLUSTERS[::6], 2.0), rng.normal(size=(8, 2)), 1e-6
    found = gradient(p, points)
    for at in np.ndindex(points.shape):
        ahead, behind = points.copy(), points.copy()
        ahead[at] += step
        behind[at] -= step
        assert found[at] == pytest.approx((divergence(p, ahead) - divergence(p, behind)) / (2 * step), abs=1e-6)


def test_separate_clusters_stay_apart_on_the_map():
    points = tsne(CLUSTERS)
    assert points.shape == (45, 2)
    assert points.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    same = LABELS[:, None] == LABELS[None]
    assert distances[same].max() < distances[~same].min()
    assert divergence(joint_similarities(CLUSTERS, 10.0), points) < 0.3


def test_the_map_is_the_same_each_time():
    assert np.array_equal(tsne(CLUSTERS[:10]), tsne(CLUSTERS[:10]))
    assert np.isfinite(tsne(np.ones((6, 4)))).all()  # equal vectors are no reason to fail


@pytest.mark.parametrize("vectors", [np.zeros((3, 2)), np.zeros(9), np.full((5, 2), np.nan)])
def test_what_cannot_be_mapped_is_refused(vectors):
    with pytest.raises(CbrError, match="four or more finite vectors"):
        tsne(vectors)
