"""What the quantizers beside the paper's promise beyond the protocol: one suite, subclassed by each test file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from parts import act, item
from torch import Tensor

from cbr_keys.places import RemovesRows
from cbr_memory.memory import CaseMemory
from cbrcore import Build
from cbrcore.errors import RunFailed
from cbrcore.interfaces import Quantizer
from cbrcore.testing import DIM, QuantizerSuite
from cbrcore.types import Provenance

HERE = Provenance("game", seed=1, episode=2, step=3, reward=1.0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed))


def cosine_by_hand(left: Tensor, right: Tensor) -> Tensor:
    """max(0, cos) of each pair of rows [n, d] and [m, d], term by term in double precision: [n, m]."""
    left, right = left.double(), right.double()
    rows = [[float((a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()) for b in right] for a in left]
    return torch.tensor(rows, dtype=torch.float64).clamp(min=0)


class KeySuite(QuantizerSuite):
    """Beside the protocol: numbers that do not depend on the batch, zeros, empty batches, files."""

    @pytest.mark.parametrize(("stored", "asked"), [(1, 1), (2, 19), (7, 3), (33, 8), (64, 16), (65, 5), (200, 40)])
    def test_an_index_gives_the_same_float_whatever_the_batch(self, stored, asked):
        quantizer = self.make(Build(context_dim=DIM, seed=stored))
        keys, queries = (quantizer.keys(normal(n, DIM, seed=n)) for n in (stored, asked))
        index = quantizer.index()
        index.add(keys)
        together = index.similarities(queries)
        alone = torch.cat([index.similarities(query[None]) for query in queries])
        assert torch.equal(together, alone)
        single = quantizer.index()
        single.add(keys[-1:])
        found, expected = single.similarities(queries)[:, 0], together[:, -1]
        assert torch.equal(found, expected)  # the last key is the most recent entry of all its buckets

    @pytest.mark.parametrize(("seed", "count"), [(1, 1), (2, 2), (3, 7), (4, 20), (5, 64), (6, 100)])
    def test_the_three_similarities_are_the_same_number(self, seed, count):
        """Exactly, so that a case found above tau is above tau wherever it is asked again."""
        quantizer = self.make(Build(context_dim=DIM))
        left = normal(count, DIM, seed=seed)
        right = left + normal(count, DIM, seed=seed + 1)
        index = quantizer.index()
        index.add(quantizer.keys(right))
        expected = quantizer.pair_similarity(left, right)
        assert torch.equal(quantizer.similarity(left, quantizer.keys(right)), expected)
        found = index.similarities(quantizer.keys(left)).diagonal()
        looked = torch.isfinite(found)
        assert torch.equal(found[looked], expected[looked].detach())
        assert ((expected >= 0) & (expected <= 1)).all()

    def test_equal_keys_tie_wherever_they_stand(self, build: Build):
        quantizer = self.fitted(build)
        key, other = quantizer.keys(normal(1, DIM, seed=4)), quantizer.keys(normal(1, DIM, seed=5))
        index = quantizer.index()
        index.add(torch.cat([key, quantizer.keys(normal(37, DIM)), key, key]))
        own, others = index.similarities(torch.cat([key, other]))[:, [0, 38, 39]]
        assert own.tolist() == [1.0, 1.0, 1.0]
        assert len(set(others.tolist())) == 1

    def test_the_scale_of_a_context_does_not_matter(self, build: Build):
        quantizer = self.fitted(build)
        left, right = normal(20, DIM, seed=2), normal(20, DIM, seed=3)
        expected = quantizer.pair_similarity(left, right)
        for scale in (1e-4, 1e5):
            torch.testing.assert_close(quantizer.pair_similarity(scale * left, right), expected)

    def test_zero_contexts_have_finite_similarities_and_no_gradient_to_follow(self, build: Build):
        quantizer = self.fitted(build)
        zero, other = torch.zeros(2, DIM, requires_grad=True), normal(2, DIM)
        index = quantizer.index()
        index.add(quantizer.keys(torch.cat([zero, other])))
        found = index.similarities(quantizer.keys(torch.cat([other, zero])))
        assert not found.isnan().any()
        values = [quantizer.pair_similarity(zero, other), quantizer.similarity(zero, quantizer.keys(other))]
        values.append(quantizer.similarity(other.requires_grad_(), quantizer.keys(zero)))
        torch.stack(values).sum().backward()
        assert torch.isfinite(torch.stack(values)).all()
        assert torch.equal(zero.grad, torch.zeros_like(zero))
        assert torch.isfinite(other.grad).all()

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_contexts_that_are_not_finite_are_refused(self, build: Build, bad):
        quantizer = self.fitted(build)
        good = normal(2, DIM)
        contexts = good.clone()
        contexts[1, 2] = bad
        for use in (
            lambda: quantizer.keys(contexts),
            lambda: quantizer.similarity(contexts, quantizer.keys(good)),
            lambda: quantizer.pair_similarity(contexts, good),
            lambda: quantizer.pair_similarity(good, contexts),
        ):
            with pytest.raises(RunFailed, match=r"not finite[^\n]*\n.*learning rate"):
                use()

    def test_nothing_happens_for_an_empty_batch(self, build: Build):
        quantizer = self.fitted(build)
        before = {name: value.clone() for name, value in quantizer.state_dict().items()}
        empty = torch.zeros(0, DIM, requires_grad=True)
        quantizer.maintain(empty, generator())
        quantizer.fit(empty, generator())
        loss = quantizer.regularizer(empty) + quantizer.pair_similarity(empty, empty).sum()
        loss = loss + quantizer.similarity(empty, quantizer.keys(empty)).sum()
        loss.backward()
        assert loss.item() == 0
        assert all(torch.equal(value, before[name]) for name, value in quantizer.state_dict().items())
        index = quantizer.index()
        assert index.similarities(quantizer.keys(normal(3, DIM))).shape == (3, 0)
        index.add(quantizer.keys(normal(3, DIM)))
        index.add(quantizer.keys(empty))
        assert len(index) == 3
        assert index.similarities(quantizer.keys(empty)).shape == (0, 3)

    def test_keys_that_were_handed_out_stay_what_they_were(self, build: Build):
        quantizer = self.fitted(build)
        keys = quantizer.keys(normal(200, DIM))
        index = quantizer.index()
        index.add(keys[:20])
        handed_out = index.keys()
        index.keep([5, 3])
        index.add(keys[20:])
        index.keep([])
        index.add(keys[100:])
        assert torch.equal(handed_out, keys[:20])

    def test_removing_one_at_a_time_leaves_a_new_index_of_the_others(self, build: Build):
        quantizer = self.fitted(build)
        keys, queries = quantizer.keys(normal(220, DIM)), quantizer.keys(normal(7, DIM, seed=2))
        index, left = quantizer.index(), list(range(200))
        index.add(keys[:200])
        for number in range(190):  # so many that what has left is cleared away in between
            del left[number * 7919 % len(left)]
            index.remove(number * 7919 % (len(left) + 1))
            if number == 100:
                index.add(keys[200:])
                left += range(200, 220)
        fresh = quantizer.index()
        fresh.add(keys[left])
        assert isinstance(index, RemovesRows)
        assert len(index) == len(left) == 30
        assert torch.equal(index.keys(), keys[left])
        assert torch.equal(torch.stack([index.key(row) for row in range(30)]), keys[left])
        assert torch.equal(index.similarities(queries), fresh.similarities(queries))
        index.key(0).zero_()  # a copy
        assert torch.equal(index.keys(), keys[left])

    def test_its_tensors_and_its_keys_are_on_the_device_that_was_asked_for(self, build: Build):
        quantizer = self.make(replace(build, device="meta", context_dim=DIM))
        assert {each.device.type for each in quantizer.state_dict().values()} <= {"meta"}
        assert quantizer.index().keys().device.type == "meta"

    def test_a_memory_of_its_keys_survives_files(self, build: Build, tmp_path):
        quantizer = self.fitted(build)
        stored = self.memory(quantizer, capacity=30)
        keys = quantizer.keys(normal(40, DIM))
        for step, key in enumerate(keys):
            stored.add(item(key, act(f"take {step % 3} {{}}", "cup")), HERE, step=step)
        stored.save(tmp_path)
        loaded = self.memory(quantizer, capacity=30)
        loaded.load(tmp_path)
        assert len(loaded) == len(stored) > 1
        assert torch.equal(loaded.index.keys(), stored.index.keys())
        queries = torch.cat([keys, quantizer.keys(normal(10, DIM, seed=9))])
        assert torch.equal(loaded.index.similarities(queries), stored.index.similarities(queries))
        for memory in (stored, loaded):  # a key is known again, and both go on alike
            memory.add(item(keys[-1], act("take 0 {}", "cup")), HERE, step=50)
            memory.add(item(quantizer.keys(normal(1, DIM, seed=11))[0], act("look")), HERE, step=51)
        assert [case.rewarded for case in loaded.cases] == [case.rewarded for case in stored.cases]
        assert max(case.rewarded for case in loaded.cases) > 1
        assert loaded.query(queries, threshold=0.1) == stored.query(queries, threshold=0.1)
        assert loaded.query(queries, threshold=0.1)[len(keys) - 1][0].relevance == 1.0

    def memory(self, quantizer: Quantizer, capacity: int) -> CaseMemory:
        return CaseMemory(quantizer.index(), identity="test", capacity=capacity)


class FixedSuite(KeySuite):
    """Quantizers without anything to learn."""

    def test_nothing_is_learned(self, build: Build):
        quantizer = self.make(build)
        before = {name: value.clone() for name, value in quantizer.state_dict().items()}
        quantizer.fit(normal(30, DIM), generator())
        quantizer.maintain(normal(30, DIM), generator())
        assert list(quantizer.parameters()) == []
        assert float(quantizer.regularizer(normal(3, DIM))) == 0
        assert quantizer.metrics() == {}
        assert all(torch.equal(value, before[name]) for name, value in quantizer.state_dict().items())
