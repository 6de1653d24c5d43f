"""Hash tables: the same candidates and cosines as a search through all rows, also after rows have left."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from key_checks import HERE, FixedSuite, cosine_by_hand, normal
from parts import act, item

from cbr_lsh.config import HashedContextConfig
from cbr_lsh.index import HashIndex
from cbr_lsh.quantizer import HashedContext
from cbr_memory.memory import CaseMemory
from cbrcore import Build


def quantizer(dim: int = 2, seed: int = 0, **config) -> HashedContext:
    return HashedContext(HashedContextConfig(**config), Build(context_dim=dim, seed=seed))


class TestContract(FixedSuite):
    def make(self, build: Build) -> HashedContext:
        return HashedContext(HashedContextConfig(), build)


class TestContractWithSmallBuckets(FixedSuite):
    def make(self, build: Build) -> HashedContext:
        return HashedContext(HashedContextConfig(tables=3, bits=2, bucket_size=3), build)

    def fitted(self, build: Build) -> HashedContext:
        """The suite asks for each of 12 keys; buckets of 3 would not hold all of them."""
        return HashedContext(HashedContextConfig(tables=3, bits=2, bucket_size=50), build)


class BruteForce:
    """Every query looks at every row: the same search without a table, in doubles."""

    def __init__(self, planes: torch.Tensor, bucket_size: int) -> None:
        self.planes = planes.double().numpy()
        self.bucket_size = bucket_size

    def candidates(self, query: np.ndarray, keys: np.ndarray) -> set[int]:
        found: set[int] = set()
        for planes in self.planes:
            code = [float(plane @ query) >= 0 for plane in planes]
            bucket = [row for row, key in enumerate(keys) if [float(plane @ key) >= 0 for plane in planes] == code]
            found.update(bucket[-self.bucket_size :])
        return found

    def similarities(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        found = cosine_by_hand(queries, keys).view(len(queries), len(keys))
        for row, query in enumerate(queries.double().numpy()):
            looked = self.candidates(query, keys.double().numpy())
            found[row, [column for column in range(len(keys)) if column not in looked]] = -torch.inf
        return found


def alike(count: int, dim: int, seed: int) -> torch.Tensor:
    """Contexts around a few centres, so that buckets fill up."""
    centres = normal(3, dim, seed=seed)
    return centres[torch.arange(count) % 3] + 0.5 * normal(count, dim, seed=seed + 1)


def test_by_hand():
    """Two tables of one hyperplane, x >= 0 and y >= 0: the query (2, 1) meets every key but (-1, -1)."""
    planes = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [-4.0, 1.0], [3.0, -4.0]])
    query = torch.tensor([[2.0, 1.0]])
    roomy, small = HashIndex(planes, bucket_size=5), HashIndex(planes, bucket_size=1)
    roomy.add(keys)
    small.add(keys)
    inf, root = torch.inf, 5**0.5
    assert roomy.similarities(query)[0].tolist() == pytest.approx([2 / root, 1 / root, -inf, 0, 2 / (5 * root)])
    assert small.similarities(query)[0].tolist() == pytest.approx([-inf, -inf, -inf, 0, 2 / (5 * root)])
    small.keep([0, 1, 2])  # the latest with x >= 0 is (0, 1), and so it is with y >= 0
    assert small.similarities(query)[0].tolist() == pytest.approx([-inf, 1 / root, -inf])


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**20),
    st.integers(0, 60),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 5),
    st.randoms(),
)
def test_equals_a_search_through_all_rows(seed, count, tables, bits, bucket_size, random):
    lsh = quantizer(dim=5, seed=seed, tables=tables, bits=bits, bucket_size=bucket_size)
    slow = BruteForce(lsh.planes, bucket_size)
    keys, queries = alike(count, 5, seed), alike(6, 5, seed + 5)
    index = lsh.index()
    index.add(keys)
    torch.testing.assert_close(
        index.similarities(queries).double(), slow.similarities(queries, keys), atol=2e-7, rtol=0
    )
    rows = random.sample(range(count), count // 2)
    index.keep(rows)
    torch.testing.assert_close(
        index.similarities(queries).double(), slow.similarities(queries, keys[rows]), atol=2e-7, rtol=0
    )


def test_equals_a_search_through_all_rows_with_the_settings_of_the_paper():
    lsh = quantizer(dim=48)
    assert lsh.planes.shape == (16, 8, 48)
    keys, queries = alike(300, 48, seed=1), alike(30, 48, seed=1)
    index = lsh.index()
    index.add(keys)
    found = index.similarities(queries)
    torch.testing.assert_close(
        found.double(), BruteForce(lsh.planes, 4).similarities(queries, keys), atol=2e-7, rtol=0
    )
    looked = torch.isfinite(found).sum(dim=1)
    assert looked.max() <= 16 * 4
    assert looked.float().mean() > 5


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**20), st.lists(st.one_of(st.integers(0, 25), st.randoms()), min_size=1, max_size=8))
def test_after_any_additions_and_removals_it_is_a_new_index_of_the_same_rows(seed, operations):
    lsh = quantizer(dim=4, seed=seed, tables=3, bits=2, bucket_size=2)
    index, rows = lsh.index(), torch.zeros(0, 4)
    for number, operation in enumerate(operations):
        if isinstance(operation, int):
            added = alike(operation, 4, seed + number)
            index.add(added)
            rows = torch.cat([rows, added])
        else:
            kept = operation.sample(range(len(rows)), 2 * len(rows) // 3)
            index.keep(kept)
            rows = rows[kept]
    fresh, queries = lsh.index(), alike(7, 4, seed)
    for row in rows:
        fresh.add(row[None])
    assert torch.equal(index.keys(), rows)
    assert torch.equal(index.similarities(queries), fresh.similarities(queries))


def test_an_entry_pushed_out_of_its_bucket_comes_back_when_a_newer_one_leaves():
    index = quantizer(tables=1, bits=1, bucket_size=2).index()
    index.add(torch.tensor([[1.0, 0.0]]).repeat(3, 1))
    query = torch.tensor([[1.0, 0.0]])
    assert index.similarities(query)[0].tolist() == [-torch.inf, 1.0, 1.0]
    index.keep([0, 2])
    assert index.similarities(query)[0].tolist() == [1.0, 1.0]


def test_a_checkpoint_holds_the_hyperplanes_and_stored_keys_follow_them():
    """A checkpoint's cases may be read before its tensors."""
    keys, queries = alike(60, 8, seed=1), alike(9, 8, seed=2)
    lsh, other = quantizer(dim=8, seed=1), quantizer(dim=8, seed=2)
    index, expected = lsh.index(), other.index()
    index.add(keys[:40])
    expected.add(keys)
    assert not torch.equal(index.similarities(queries), expected.similarities(queries)[:, :40])
    lsh.load_state_dict(other.state_dict())
    index.add(keys[40:])
    assert torch.equal(index.similarities(queries), expected.similarities(queries))
    lsh.load_state_dict(quantizer(dim=8, seed=3).state_dict())
    lsh.load_state_dict(other.state_dict())
    index.keep(range(50))
    expected.keep(range(50))
    assert torch.equal(index.similarities(queries), expected.similarities(queries))


def test_the_hyperplanes_follow_from_the_seed_of_the_run_alone():
    first = quantizer(seed=3).planes
    torch.manual_seed(77)
    assert torch.equal(quantizer(seed=3).planes, first)
    assert not torch.equal(quantizer(seed=4).planes, first)


def test_similarity_is_the_cosine_of_the_contexts_in_doubles():
    left, right = normal(2, 20, 30).double()
    expected = cosine_by_hand(left, right).diagonal()
    lsh = quantizer(dim=30)
    torch.testing.assert_close(lsh.pair_similarity(left, right), expected, atol=2e-7, rtol=0)
    found = lsh.similarity(left.requires_grad_(), right)
    torch.testing.assert_close(found, expected, atol=2e-7, rtol=0)
    found.sum().backward()
    assert (left.grad.norm(dim=1) > 0).all()  # of those with a negative cosine too


def test_where_nothing_shares_a_bucket_nothing_is_retrieved():
    lsh = quantizer(tables=1, bits=1)
    memory = CaseMemory(lsh.index())
    memory.add(item(torch.tensor([1.0, 2.0]), act("look")), HERE, step=0)
    found = memory.query(torch.tensor([[-1.0, -2.0], [2.0, 4.0]]), threshold=0)
    assert [len(matches) for matches in found] == [0, 1]
