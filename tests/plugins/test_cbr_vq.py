"""KD codes: worked examples, gradients, codebook upkeep, the index."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cbr_vq.config import VectorQuantizerConfig
from cbr_vq.index import CodeIndex
from cbr_vq.kmeans import kmeans
from cbr_vq.quantizer import VectorQuantizer
from cbrcore import Build, CbrError
from cbrcore.errors import RunFailed
from cbrcore.testing import QuantizerSuite


def quantizer(dim: int = 4, **config) -> VectorQuantizer:
    torch.manual_seed(0)
    defaults = {"codes": 2, "parts": 2}
    return VectorQuantizer(VectorQuantizerConfig(**(defaults | config)), Build(context_dim=dim))


def by_hand() -> VectorQuantizer:
    """Two parts of width 2 (so of length sqrt 2), two entries each."""
    vq = quantizer()
    root = math.sqrt(2)
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[root, 0.0], [0.0, root]], [[root, 0.0], [-root, 0.0]]]))
    return vq


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class TestContract(QuantizerSuite):
    def make(self, build: Build) -> VectorQuantizer:
        return VectorQuantizer(VectorQuantizerConfig(codes=8, parts=6), build)


def test_codes_by_hand_whatever_the_scale_of_a_part():
    vq = by_hand()
    contexts = torch.tensor([[3.0, 1.0, 5.0, 0.1], [0.1, 0.2, -9.0, 3.0], [0.5, -0.1, -0.01, 0.0]])
    assert vq.keys(contexts).tolist() == [[0, 0], [1, 1], [0, 1]]


def test_similarity_is_the_share_of_equal_codes():
    vq = by_hand()
    contexts = torch.tensor([[3.0, 1.0, 5.0, 0.1], [0.1, 0.2, -9.0, 3.0], [0.5, -0.1, -0.01, 0.0]])
    keys = torch.tensor([[0, 0], [0, 0], [0, 0]], dtype=torch.uint8)
    assert vq.similarity(contexts, keys).tolist() == [1.0, 0.0, 0.5]
    assert vq.pair_similarity(contexts, contexts.roll(-1, 0)).tolist() == [0.0, 0.5, 0.5]


def test_straight_through_gradient_is_that_of_the_soft_codes():
    vq = by_hand().double()
    contexts = torch.tensor([[0.8, 0.6, 0.6, 0.8]], dtype=torch.float64, requires_grad=True)
    keys = torch.tensor([[1, 0]], dtype=torch.uint8)
    vq.similarity(contexts, keys).sum().backward()

    soft_input = contexts.detach().clone().requires_grad_()
    parts = torch.nn.functional.normalize(soft_input.view(1, 2, 2), dim=-1) * math.sqrt(2)
    distances = ((parts[:, :, None] - vq.entries.detach()[None]) ** 2).sum(-1)
    p = torch.softmax(-distances, dim=-1)  # T = 1
    ((p[0, 0, 1] + p[0, 1, 0]) / 2).backward()
    torch.testing.assert_close(contexts.grad, soft_input.grad)
    assert vq.entries.grad.abs().sum() > 0


def test_memory_side_is_a_constant_and_pairs_train_both_sides():
    vq = quantizer(dim=8, codes=4)
    left, right = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    vq.pair_similarity(left, right).sum().backward()
    assert left.grad.abs().sum() > 0
    assert right.grad.abs().sum() > 0


def test_gradient_descent_on_the_similarity_moves_codes_together():
    torch.manual_seed(1)
    vq = quantizer(dim=16, codes=4, parts=4)
    left, right = torch.randn(1, 16, requires_grad=True), torch.randn(1, 16)
    before = float(vq.pair_similarity(left, right).detach())
    optimizer = torch.optim.Adam([left], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        (1 - vq.pair_similarity(left, right)).square().sum().backward()
        optimizer.step()
    assert before < 1
    assert float(vq.pair_similarity(left, right).detach()) == 1


def test_regularizer_by_hand():
    vq = by_hand()
    contexts = torch.tensor([[1.0, 0.0, 0.0, 1.0]])  # part 0 sits on entry 0; part 1 is sqrt(2) (0, 1)
    root = math.sqrt(2)
    error = ((0 - root) ** 2 + (root - 0) ** 2) / 4  # squared distance to entry 0 of part 1, mean over d = 4
    assert float(vq.regularizer(contexts).detach()) == pytest.approx(1.25 * error)


def test_parts_must_divide_the_width():
    with pytest.raises(CbrError, match=r"7 parts do not divide the width d = 24 .*\n.*6, 8"):
        VectorQuantizer(VectorQuantizerConfig(parts=7), Build(context_dim=24))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_contexts_that_are_not_finite_are_refused_and_do_no_harm(bad):
    vq = quantizer()
    contexts = torch.tensor([[1.0, bad, 0.0, 1.0]])
    for use in (
        lambda: vq.keys(contexts),
        lambda: vq.fit(contexts, generator()),
        lambda: vq.pair_similarity(contexts, contexts),
        lambda: vq.maintain(contexts, generator()),
    ):
        with pytest.raises(RunFailed, match="not finite"):
            use()
    assert torch.isfinite(vq.entries).all()


def test_a_zero_context_is_finite():
    vq = quantizer()
    zero = torch.zeros(1, 4, requires_grad=True)
    vq.pair_similarity(zero, torch.ones(1, 4)).sum().backward()
    assert torch.isfinite(zero.grad).all()


# -- where the codebooks start ---------------------------------------------------------------------------------


def test_kmeans_finds_clusters_and_is_repeatable():
    centres = torch.tensor([[-5.0, 0.0], [5.0, 0.0], [0.0, 7.0]])
    samples = (centres.repeat(20, 1) + 0.1 * torch.randn(60, 2, generator=generator(3))).unsqueeze(0)
    found, again = (kmeans(samples, 3, iterations=25, generator=generator()) for _ in range(2))
    assert torch.equal(found, again)
    assert torch.cdist(found[0], centres).amin(dim=0).max() < 0.2


def test_fewer_samples_than_entries_still_fit():
    vq = quantizer(codes=8)
    contexts = torch.randn(3, 4)
    vq.fit(contexts, generator())
    assert torch.isfinite(vq.entries).all()
    assert len(vq.keys(contexts).unique(dim=0)) == 3


def test_fit_starts_from_the_data():
    vq = quantizer(dim=8, codes=6, parts=2)
    contexts = torch.randn(6, 8)
    vq.fit(contexts, generator())
    assert float(vq.regularizer(contexts).detach()) == pytest.approx(0, abs=1e-10)
    before = vq.entries.detach().clone()
    vq.fit(torch.zeros(0, 8), generator())
    assert torch.equal(vq.entries, before)


# -- upkeep ----------------------------------------------------------------------------------------------------


def with_a_dead_entry(**config) -> tuple[VectorQuantizer, Tensor]:
    """Entries of the one part: one far away from all data, one between two clusters. Contexts of both clusters."""
    vq = quantizer(dim=2, parts=1, revive_after=3, **config)
    with torch.no_grad():
        vq.entries.copy_(torch.tensor([[[1.4, 0.0], [-9.0, -9.0]]]))
    return vq, torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]])


def test_a_dead_entry_moves_to_badly_represented_samples_and_gets_hits():
    vq, contexts = with_a_dead_entry()
    for _ in range(10):
        vq.maintain(contexts, generator())
    assert sorted(vq.keys(contexts).flatten().tolist()) == [0, 0, 1, 1]
    assert torch.equal(vq.idle, torch.zeros(1, 2, dtype=torch.long))


def test_a_dead_entry_stays_where_every_sample_is_well_represented():
    vq, contexts = with_a_dead_entry()
    codes = vq.keys(contexts[:2])
    for _ in range(10):
        vq.maintain(contexts[:2], generator())
    assert vq.entries[0, 1].tolist() == [-9.0, -9.0]
    assert torch.equal(vq.keys(contexts[:2]), codes)


def test_revival_can_be_turned_off_and_reading_never_revives():
    vq, contexts = with_a_dead_entry()
    for _ in range(10):
        vq.eval().keys(contexts)
    off = quantizer(dim=2, parts=1, revive_after=0)
    before = off.entries.detach().clone()
    for _ in range(10):
        off.maintain(contexts, generator())
    assert vq.entries[0, 1].tolist() == [-9.0, -9.0]
    assert torch.equal(off.entries, before)


def test_usage_and_perplexity_by_hand_and_independent_of_the_batch_size():
    contexts = torch.tensor([[1.0, 0.0, 1.0, 0.0]] * 3 + [[0.0, 1.0, 1.0, 0.0]])
    whole, single = by_hand(), by_hand()
    assert whole.metrics() == {"code_usage": 0.0, "code_perplexity": 0.0}
    whole.maintain(contexts, generator())
    for row in contexts:
        single.maintain(row[None], generator())
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    expected = {"code_usage": (1.0 + 0.5) / 2, "code_perplexity": (math.exp(entropy) + 1) / 2}
    assert whole.metrics() == pytest.approx(expected)
    assert single.metrics() == pytest.approx(expected)


def test_figures_count_the_recent_contexts_only():
    vq = quantizer(window=4)
    with torch.no_grad():
        vq.entries.copy_(by_hand().entries)
    vq.maintain(torch.tensor([[0.0, 1.0, -1.0, 0.0]] * 3), generator())
    vq.maintain(torch.tensor([[1.0, 0.0, 1.0, 0.0]] * 9), generator())
    assert vq.metrics()["code_usage"] == 0.5


def test_upkeep_survives_a_checkpoint():
    vq, contexts = with_a_dead_entry()
    vq.maintain(contexts, generator())
    other, _ = with_a_dead_entry()
    other.load_state_dict(vq.state_dict())
    assert other.metrics() == vq.metrics()
    assert torch.equal(other.idle, vq.idle)


def test_nothing_happens_for_an_empty_batch():
    vq = quantizer()
    vq.maintain(torch.zeros(0, 4), generator())
    assert int(vq.seen) == 0
    assert float(vq.regularizer(torch.zeros(0, 4))) == 0


# -- the index -------------------------------------------------------------------------------------------------


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


def test_large_memories_are_compared_part_by_part_to_the_same_result():
    draws = generator()
    keys = torch.randint(32, (3000, 32), generator=draws).to(torch.uint8)
    index = CodeIndex(32, "cpu")
    index.add(keys)
    queries = keys[::300].clone()
    found = index.similarities(queries)
    assert torch.equal(found, (queries[:, None] == keys[None]).float().mean(dim=-1))
    assert found.argmax(dim=1).tolist() == list(range(0, 3000, 300))


def test_default_threshold_needs_23_of_32_equal_codes():
    index = CodeIndex(32, "cpu")
    index.add(torch.zeros(1, 32, dtype=torch.uint8))
    query = torch.zeros(2, 32, dtype=torch.uint8)
    query[0, :9] = 1  # 23 equal
    query[1, :10] = 1  # 22 equal
    above = index.similarities(query) > 0.7
    assert above.flatten().tolist() == [True, False]
