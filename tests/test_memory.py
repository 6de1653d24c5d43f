"""The case memory: a set of (key, action) pairs with counters, capacity and files."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import DenseIndex, act

from cbrcore.errors import RunFolderError
from cbrcore.memory import CaseMemory
from cbrcore.types import Provenance

HERE = Provenance("game", seed=1, episode=2, step=3, reward=1.0)
UNREWARDED = Provenance("game", seed=1, episode=2, step=2, reward=0.0)


def key(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def memory(**settings: object) -> CaseMemory:
    return CaseMemory(DenseIndex(), identity="test", **settings)


def test_equal_key_and_template_are_stored_once_and_counted():
    m = memory()
    first = m.add(key(1, 0), act("put {} on {}", "cup", "rack"), HERE, step=10)
    second = m.add(key(1, 0), act("put {} on {}", "mug", "rack"), HERE, step=25)
    assert second is first
    assert (len(m), first.rewarded, first.last_step, first.entities) == (1, 2, 25, ("cup", "rack"))


def test_same_key_with_another_template_is_another_case():
    m = memory()
    m.add(key(1, 0), act("put {} on {}", "cup", "rack"), HERE, step=1)
    m.add(key(1, 0), act("insert {} into {}", "cup", "rack"), HERE, step=2)
    assert len(m) == 2


def test_unrewarded_case_counts_no_reward():
    m = memory()
    case = m.add(key(1, 0), act("take {}", "cup"), UNREWARDED, step=1)
    assert case.rewarded == 0


def test_query_returns_the_most_similar_case_above_the_threshold_strictly():
    m = memory()
    m.add(key(1, 0), act("take {}", "cup"), HERE, step=1)
    m.add(key(3, 4), act("take {}", "mug"), HERE, step=2)
    (found,) = m.query(torch.tensor([[0.0, 2.0]]), threshold=0.5)  # cosines 0 and 0.8
    assert [(match.case.text, round(match.relevance, 6)) for match in found] == [("take mug", 0.8)]
    exact = found[0].relevance
    assert m.query(torch.tensor([[0.0, 2.0]]), threshold=exact) == [[]]


def test_ties_prefer_the_more_often_rewarded_then_the_more_recent_case():
    m = memory()
    m.add(key(1, 0), act("take {}", "a"), HERE, step=1)
    m.add(key(2, 0), act("take {}", "b"), HERE, step=2)  # same direction: same cosine to every query
    assert m.query(key(1, 0)[None], threshold=0.5)[0][0].case.text == "take b"
    m.add(key(1, 0), act("take {}", "a"), HERE, step=1)  # rewarded twice now
    assert m.query(key(1, 0)[None], threshold=0.5)[0][0].case.text == "take a"


def test_tied_cases_of_different_templates_are_all_returned():
    m = memory()
    m.add(key(1, 0), act("take {}", "a"), HERE, step=1)
    m.add(key(1, 0), act("drop {}", "a"), HERE, step=2)
    assert [match.case.template for match in m.query(key(1, 0)[None], threshold=0)[0]] == ["drop {}", "take {}"]


def test_empty_memory_and_empty_query():
    m = memory()
    assert m.query(torch.zeros(3, 2), threshold=0.5) == [[], [], []]
    m.add(key(1, 0), act("look"), HERE, step=1)
    assert m.query(torch.zeros(0, 2), threshold=0.5) == []


def test_nan_similarity_is_never_retrieved():
    m = memory()
    m.add(key(1, 0), act("look"), HERE, step=1)
    assert m.query(key(float("nan"), 0)[None], threshold=0.5) == [[]]


def test_oldest_case_leaves_at_capacity():
    m = memory(capacity=2)
    for step, name in enumerate("abc"):
        m.add(key(step + 1.0, 1), act("take {}", name), HERE, step=step)
    assert [case.text for case in m.cases] == ["take b", "take c"]
    assert torch.equal(m.key_of(m.cases[0]), key(2, 1))


def test_least_used_case_leaves_at_capacity_but_never_the_new_one():
    m = memory(capacity=2, eviction="least_used")
    m.add(key(1, 1), act("take {}", "a"), HERE, step=0).reused = 5
    m.add(key(2, 1), act("take {}", "b"), HERE, step=1)
    m.add(key(3, 1), act("take {}", "c"), UNREWARDED, step=2)
    assert [case.text for case in m.cases] == ["take a", "take c"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab")), max_size=25), st.integers(1, 5))
def test_memory_is_a_bounded_set_whose_keys_stay_beside_their_cases(additions, capacity):
    m = memory(capacity=capacity)
    for step, (value, template) in enumerate(additions):
        m.add(key(value, 1), act(template), Provenance("g", 0, 0, value, 1.0), step=step)
        pairs = [(tuple(m.key_of(case).tolist()), case.template) for case in m.cases]
        assert len(pairs) == len(set(pairs)) == len(m.index) <= capacity
        assert all(k[0] == case.provenance.step for (k, _), case in zip(pairs, m.cases, strict=True))
        assert (float(value), 1.0) in {k for k, t in pairs if t == template}


def test_saved_memory_reads_back_equal(tmp_path):
    m = memory()
    m.add(key(1, 2), act("put {} on {}", "café cup", "rack"), HERE, step=4).reused = 3
    m.add(key(2, 1), act("look"), UNREWARDED, step=9)
    m.save(tmp_path)
    again = memory()
    again.load(tmp_path)
    assert again.cases == m.cases
    assert torch.equal(again.index.keys(), m.index.keys())
    assert again.add(key(2, 1), act("look"), HERE, step=11) is again.cases[1]
    assert again.add(key(5, 5), act("look"), HERE, step=12).id == 2


def test_empty_memory_reads_back_empty(tmp_path):
    memory().save(tmp_path)
    again = memory()
    again.add(key(1, 2), act("look"), HERE, step=1)
    again.load(tmp_path)
    assert len(again) == len(again.index) == 0


def test_memory_of_another_encoder_is_refused_with_both_names(tmp_path):
    memory().save(tmp_path)
    with pytest.raises(RunFolderError, match=r"stored: test\n  now:    other"):
        CaseMemory(DenseIndex(), identity="other").load(tmp_path)


@pytest.mark.parametrize("damage", ["missing", "cut", "not json", "field", "count"])
def test_damaged_memory_files_are_named(tmp_path, damage):
    m = memory()
    m.add(key(1, 2), act("look"), HERE, step=4)
    m.add(key(2, 2), act("look"), HERE, step=4)
    m.save(tmp_path)
    cases, keys = tmp_path / "cases.jsonl", tmp_path / "keys.safetensors"
    lines = cases.read_text().splitlines()
    if damage == "missing":
        keys.unlink()
    elif damage == "cut":
        keys.write_bytes(keys.read_bytes()[:20])
    elif damage == "not json":
        cases.write_text("{")
    elif damage == "field":
        cases.write_text(json.dumps({"id": 1}) + "\n")
    else:
        cases.write_text(lines[0] + "\n")
    with pytest.raises(RunFolderError, match=str(tmp_path)):
        memory().load(tmp_path)
