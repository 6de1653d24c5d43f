"""What quantizers share: exact cosines, their gradient, growing rows, indexes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from key_checks import cosine_by_hand, generator, normal
from torch import Tensor

from cbr_keys.buckets import Buckets
from cbr_keys.codes import CodeIndex
from cbr_keys.cosine import cosine, cosines, on_grid, unit
from cbr_keys.figures import code_figures, remember
from cbr_keys.places import Places
from cbr_keys.rows import Rows
from cbr_keys.vectors import CosineIndex

# -- cosines ---------------------------------------------------------------------------------------------------


def test_cosine_by_hand():
    left = torch.tensor([[3.0, 4.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    right = torch.tensor([[4.0, 3.0], [-2.0, 0.0], [0.0, 5.0], [1.0, 0.0]])
    assert cosine(left, right).tolist() == pytest.approx([0.96, 0.0, 0.5**0.5, 0.0], abs=1e-7)


def test_units_by_hand():
    units = on_grid(torch.tensor([[3.0, -4.0], [0.0, 0.0], [5e-13, 0.0]]))
    assert units.dtype == torch.float64
    assert units.tolist() == [[round(0.6 * 2**26) / 2**26, -round(0.8 * 2**26) / 2**26], [0.0, 0.0], [0.0, 0.0]]


def test_gradient_is_that_of_the_cosine_also_below_zero():
    """At (1, 0) against (cos, sin) of an angle a, turning the left one by t changes the cosine by sin(a) t."""
    for degrees in (40.0, 90.0, 130.0):
        angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
        left = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)
        right = torch.stack([angle.cos(), angle.sin()])[None].requires_grad_()
        cosine(left, right).sum().backward()
        expected = torch.stack([torch.zeros(()).double(), angle.sin()])[None]
        torch.testing.assert_close(left.grad, expected)
        assert right.grad.norm().item() == pytest.approx(float(angle.sin()))


def test_opposite_vectors_are_pulled_together():
    left = torch.tensor([[1.0, 0.1, 0.0]], requires_grad=True)
    right = torch.tensor([[-1.0, 0.1, 0.1]])
    optimizer = torch.optim.Adam([left], lr=0.05)
    assert cosine(left, right).item() == 0
    for _ in range(300):
        optimizer.zero_grad()
        (1 - cosine(left, right)).square().sum().backward()
        optimizer.step()
    assert cosine(left, right).item() > 0.98


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from([1, 2, 3, 24, 100, 769]))
def test_cosines_are_the_formula_and_never_depend_on_the_order_of_sums(seed, count, width):
    left, right = normal(2, count, width, seed=seed)
    found = cosines(on_grid(left), on_grid(right))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), cosine_by_hand(left, right), atol=2e-7, rtol=0)
    order = torch.randperm(width, generator=generator(seed))
    shuffled = cosines(on_grid(left)[:, order], on_grid(right)[:, order])
    assert torch.equal(shuffled, found)
    assert torch.equal(cosine(left, right), found.diagonal())


def test_a_product_on_the_grid_is_exact():
    left, right = on_grid(normal(1, 768)), on_grid(normal(1, 768, seed=1))
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(left[0].tolist(), right[0].tolist(), strict=True))
    assert Fraction(float(left[0] @ right[0])) == exact


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(1, 80))
def test_a_unit_vector_does_not_depend_on_its_batch(seed, count, width):
    vectors = normal(count, width, seed=seed)
    together = on_grid(vectors)
    assert torch.equal(together, torch.cat([on_grid(row[None]) for row in vectors]))
    torch.testing.assert_close(together.square().sum(dim=1), torch.ones(count).double())


def test_a_zero_vector_has_no_direction_and_no_gradient():
    vectors = torch.tensor([[0.0, 0.0], [1e-13, 0.0], [0.0, 2.0]], requires_grad=True)
    units = unit(vectors)
    assert units.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    units.sum().backward()
    assert vectors.grad.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]]


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3), (3, 3), (4, 2, 3), (2, 3, 3), (2, 2, 2, 3)])
@pytest.mark.parametrize("scaled", [on_grid, unit])
def test_vectors_are_the_last_dimension_whatever_comes_before_it(scaled, shape):
    vectors = normal(*shape, seed=4)
    assert torch.equal(scaled(vectors), scaled(vectors.reshape(-1, 3)).view(shape))


# -- rows and indexes ------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.lists(st.one_of(st.integers(0, 90), st.randoms()), max_size=6))
def test_rows_are_those_of_a_list(operations):
    rows, expected = Rows(2, torch.float32, "cpu"), torch.zeros(0, 2)
    for number, operation in enumerate(operations):
        if isinstance(operation, int):
            added = normal(operation, 2, seed=number)
            rows.add(added)
            expected = torch.cat([expected, added])
        else:
            kept = operation.sample(range(len(expected)), len(expected) // 2)
            rows.keep(kept)
            expected = expected[kept]
        assert len(rows) == len(expected)
        assert torch.equal(rows.all(), expected)


def test_adding_one_row_at_a_time_moves_each_row_a_few_times():
    rows, places = Rows(1, torch.float32, "cpu"), set()
    for number in range(5000):
        rows.add(torch.tensor([[float(number)]]))
        places.add(rows.all().data_ptr())
    assert len(places) <= 8  # 64, 128, ..., 8192
    assert torch.equal(rows.all()[:, 0], torch.arange(5000.0))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 9), st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(1, 20), st.randoms())
def test_cosine_index_is_the_formula(queries, batches, width, random):
    index, stored = CosineIndex(width, "cpu"), torch.zeros(0, width)
    for number, size in enumerate(batches):
        added = normal(size, width, seed=random.randrange(1000) + number)
        index.add(added)
        stored = torch.cat([stored, added])
    rows = random.sample(range(len(stored)), len(stored) // 2)
    index.keep(rows)
    asked = normal(queries, width, seed=5)
    assert torch.equal(index.keys(), stored[rows])
    expected = cosine_by_hand(asked, stored[rows]).view(queries, len(rows))
    torch.testing.assert_close(index.similarities(asked).double(), expected, atol=2e-7, rtol=0)


def slow_similarities(queries: Tensor, keys: Tensor) -> list[list[float]]:
    return [
        [sum(a == b for a, b in zip(q, k, strict=True)) / len(q) for k in keys.tolist()] for q in queries.tolist()
    ]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 9), st.lists(st.integers(0, 80), min_size=1, max_size=4), st.integers(1, 6), st.randoms())
def test_index_equals_counting_by_hand(queries, batches, parts, random):
    draws = generator(random.randrange(1000))

    def codes(count: int) -> Tensor:
        return torch.randint(3, (count, parts), generator=draws).to(torch.uint8)

    index, stored = CodeIndex(parts, "cpu"), codes(0)
    for size in batches:
        added = codes(size)
        index.add(added)
        stored = torch.cat([stored, added])
    rows = random.sample(range(len(stored)), len(stored) // 2)
    index.keep(rows)
    asked = codes(queries)
    assert torch.equal(index.keys(), stored[rows])
    found = index.similarities(asked)
    assert found.dtype == torch.float32
    expected = torch.tensor(slow_similarities(asked, stored[rows])).view(queries, len(rows))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("count", "parts"), [(40_000, 4), (50, 300), (3000, 32)])
def test_many_keys_and_many_parts(count, parts):
    """More keys than are compared at a time; more equal codes than a byte counts."""
    keys = torch.randint(4, (count, parts), generator=generator()).to(torch.uint8)
    index = CodeIndex(parts, "cpu")
    index.add(keys)
    queries = keys[:: count // 5]
    found = index.similarities(queries)
    expected = torch.stack([(query == keys).float().sum(dim=-1) / parts for query in queries])
    assert torch.equal(found, expected)
    assert torch.equal(found.amax(dim=1), torch.ones(len(queries)))


def best_by_hand(keys: list[list[int]], asked: list[int], threshold: float) -> tuple[float, list[int]] | None:
    """Row by row, in single precision."""
    shares = [np.float32(sum(map(int.__eq__, key, asked))) / np.float32(len(asked)) for key in keys]
    best = max(shares, default=np.float32(-np.inf))
    rows = [row for row, share in enumerate(shares) if share == best]
    return (float(best), rows) if best > np.float32(threshold) else None


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_the_best_above_a_threshold_is_that_of_all_similarities(data):
    """With buckets or without, whatever came and left before, whether codes crowd a bucket or not."""
    parts, levels = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([2, 3, 200]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cbr_keys.codes._HASHED", data.draw(st.sampled_from([1, 10, 1000])))
        patch.setattr("cbr_keys.codes._SKEWED", data.draw(st.sampled_from([0.1, 1, 4])))
        patch.setattr("cbr_keys.codes.NEW", data.draw(st.integers(0, 5)))
        index, expected = CodeIndex(parts, "cpu"), list[list[int]]()
        draws = generator(data.draw(st.integers(0, 2**31)))
        for _ in range(data.draw(st.integers(1, 12))):
            do = data.draw(st.sampled_from(["add", "add", "remove", "keep", "ask", "ask"]))
            if do == "add":
                more = torch.randint(levels, (data.draw(st.integers(0, 9)), parts), generator=draws).to(
                    torch.uint8
                )
                index.add(more)
                expected += more.tolist()
            elif do == "remove" and expected:
                row = data.draw(st.integers(0, len(expected) - 1))
                index.remove(row)
                del expected[row]
            elif do == "keep":
                rows = [row for row in range(len(expected)) if data.draw(st.integers(0, 9))]
                index.keep(rows)
                expected = [expected[row] for row in rows]
            threshold = data.draw(st.sampled_from([-0.1, 0.0, 0.3, 2 / 3, 0.7, 0.99, 1.0]))
            asked = torch.randint(levels, (3, parts), generator=draws).to(torch.uint8)
            asked[0] = torch.tensor(expected[len(expected) // 2], dtype=torch.uint8) if expected else asked[0]
            by_hand = [best_by_hand(expected, query, threshold) for query in asked.tolist()]
            assert index.best_above(asked, threshold) == by_hand


def test_buckets_hold_few_others_where_codes_are_spread():
    """A code in 20,000 with six of 32 places changed: it is found, and hardly more is looked at."""
    codes = torch.randint(32, (20_000, 32), generator=generator()).to(torch.uint8).numpy()
    buckets = Buckets(32, 9)
    buckets.take_in(codes[:15_000])
    buckets.take_in(codes[15_000:])
    for row in (0, 14_999, 15_000, 19_999):
        asked = codes[row].copy()
        asked[::6] ^= 1
        near = buckets.near(asked, 20_000)
        assert row in near
        assert len(near) < 60  # ten pieces, 20,000 / 32^3 rows by chance in each
        assert buckets.near(asked, 0) is None


@pytest.mark.parametrize(
    ("stored", "most"), [(1, 0), (64, 0), (66, 64), (74, 65), (146, 73), (147, 73), (1000, 168)]
)
def test_a_table_is_crowded_when_64_rows_and_an_eighth_of_the_rest_have_left(stored, most):
    """`most`: so many may leave, and not one more; all of 64 and less."""
    places = Places()
    places.add(stored)
    left = next((n for n in range(stored + 1) if places.crowded or (n < stored and places.remove(0) < 0)), 0)
    assert left == (most + 1 if most else 0)


def test_the_keys_of_an_index_are_a_copy():
    index = CodeIndex(2, "cpu")
    index.add(torch.tensor([[1, 2]], dtype=torch.uint8))
    index.keys().zero_()
    assert index.keys().tolist() == [[1, 2]]


# -- figures ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(0, 30), st.integers(1, 5), st.integers(1, 6))
def test_usage_and_perplexity_are_those_of_the_shares_of_each_code(seed, count, parts, levels):
    """Counted code by code; the ring is longer than what was seen, or full."""
    recent = torch.zeros(20, parts, dtype=torch.long)
    codes = torch.randint(levels, (count, parts), generator=generator(seed))
    seen = torch.zeros((), dtype=torch.long)
    remember(recent, seen, codes)
    kept = codes[-20:].tolist()
    usages, perplexities = [], []
    for part in range(parts if kept else 0):
        shares = [sum(row[part] == level for row in kept) / len(kept) for level in range(levels)]
        usages.append(sum(share > 0 for share in shares) / levels)
        perplexities.append(math.exp(-sum(share * math.log(share) for share in shares if share)))
    figures = code_figures(recent, seen, levels)
    assert figures["code_usage"] == pytest.approx(sum(usages) / parts)
    assert figures["code_perplexity"] == pytest.approx(sum(perplexities) / parts)
