"""The case memory: a set of (key, action) pairs with counters, capacity and files."""

from __future__ import annotations

import copy
import json
import pickle
import random
import tracemalloc
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parts import DenseIndex, act, item

from cbr_keys.codes import CodeIndex
from cbr_memory.files import read_cases
from cbr_memory.memory import CaseMemory
from cbrcore.errors import RunFolderError
from cbrcore.interfaces import StoredCases
from cbrcore.types import Case, Provenance, StateGraph

HERE = Provenance("game", seed=1, episode=2, step=3, reward=1.0)
GRAPH = StateGraph.of([("cup", "on", "table")], ["player"])
UNREWARDED = Provenance("game", seed=1, episode=2, step=2, reward=0.0)


def key(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def memory(**settings: object) -> CaseMemory:
    return CaseMemory(DenseIndex(), identity="test", **settings)


def test_equal_key_and_template_are_stored_once_and_counted():
    m = memory()
    first = m.add(item(key(1, 0), act("put {} on {}", "cup", "rack")), HERE, step=10)
    second = m.add(item(key(1, 0), act("put {} on {}", "mug", "rack")), HERE, step=25)
    assert second is first
    assert (len(m), first.rewarded, first.last_step, first.entities) == (1, 2, 25, ("cup", "rack"))


@pytest.mark.parametrize("rewards", [[1], [0], [-1], [1, 1], [1, 0], [0, 1], [0, 0, -1], [2, 0.5, 0]])
def test_only_rewards_are_counted_as_rewarded(rewards):
    m = memory()
    for step, reward in enumerate(rewards):
        case = m.add(item(key(1, 0), act("take {}", "cup")), replace(HERE, reward=float(reward)), step=step)
    assert (case.rewarded, case.last_step) == (sum(reward > 0 for reward in rewards), len(rewards) - 1)
    assert case.provenance.reward == rewards[0]


def test_same_key_with_another_template_is_another_case():
    m = memory()
    m.add(item(key(1, 0), act("put {} on {}", "cup", "rack")), HERE, step=1)
    m.add(item(key(1, 0), act("insert {} into {}", "cup", "rack")), HERE, step=2)
    assert len(m) == 2


def test_unrewarded_case_counts_no_reward():
    m = memory()
    case = m.add(item(key(1, 0), act("take {}", "cup")), UNREWARDED, step=1)
    assert case.rewarded == 0


def test_query_returns_the_most_similar_case_above_the_threshold_strictly():
    m = memory()
    m.add(item(key(1, 0), act("take {}", "cup")), HERE, step=1)
    m.add(item(key(3, 4), act("take {}", "mug")), HERE, step=2)
    (found,) = m.query(torch.tensor([[0.0, 2.0]]), threshold=0.5)  # cosines 0 and 0.8
    assert [(match.case.text, round(match.relevance, 6)) for match in found] == [("take mug", 0.8)]
    exact = found[0].relevance
    assert m.query(torch.tensor([[0.0, 2.0]]), threshold=exact) == [[]]


@pytest.mark.parametrize("neighbours", [1, 3])
@pytest.mark.parametrize("parts", [3, 5, 7, 10, 12, 32])
def test_a_share_of_equal_codes_is_never_above_itself(parts, neighbours):
    """2/3 as a float of single precision is above 2/3 in double precision, and so are 0.6 and 0.8."""
    m = CaseMemory(CodeIndex(parts, "cpu"))
    m.add(item(torch.zeros(parts, dtype=torch.uint8), act("take {}", "cup")), HERE, step=1)
    for equal in range(1, parts + 1):
        asked = (torch.arange(parts) >= equal).to(torch.uint8)[None]
        assert m.query(asked, threshold=equal / parts, neighbours=neighbours) == [[]]
        assert m.query(asked, threshold=(equal - 0.5) / parts, neighbours=neighbours) != [[]]


def test_ties_prefer_the_more_often_rewarded_then_the_more_recent_case():
    m = memory()
    m.add(item(key(1, 0), act("take {}", "a")), HERE, step=1)
    m.add(item(key(2, 0), act("take {}", "b")), HERE, step=2)  # same direction: same cosine to every query
    assert m.query(key(1, 0)[None], threshold=0.5)[0][0].case.text == "take b"
    m.add(item(key(1, 0), act("take {}", "a")), HERE, step=1)  # rewarded twice now
    assert m.query(key(1, 0)[None], threshold=0.5)[0][0].case.text == "take a"


def test_tied_cases_of_different_templates_are_all_returned():
    m = memory()
    m.add(item(key(1, 0), act("take {}", "a")), HERE, step=1)
    m.add(item(key(1, 0), act("drop {}", "a")), HERE, step=2)
    assert [match.case.template for match in m.query(key(1, 0)[None], threshold=0)[0]] == ["drop {}", "take {}"]


def test_empty_memory_and_empty_query():
    m = memory()
    assert m.query(torch.zeros(3, 2), threshold=0.5) == [[], [], []]
    m.add(item(key(1, 0), act("look")), HERE, step=1)
    assert m.query(torch.zeros(0, 2), threshold=0.5) == []


def test_nan_similarity_is_never_retrieved():
    m = memory()
    m.add(item(key(1, 0), act("look")), HERE, step=1)
    assert m.query(key(float("nan"), 0)[None], threshold=0.5) == [[]]


def test_oldest_case_leaves_at_capacity():
    m = memory(capacity=2)
    for step, name in enumerate("abc"):
        m.add(item(key(step + 1.0, 1), act("take {}", name)), HERE, step=step)
    assert [case.text for case in m.cases] == ["take b", "take c"]
    assert torch.equal(m.key_of(m.cases[0]), key(2, 1))


def test_least_used_case_leaves_at_capacity_but_never_the_new_one():
    m = memory(capacity=2, eviction="least_used")
    m.add(item(key(1, 1), act("take {}", "a")), HERE, step=0).reused = 5
    m.add(item(key(2, 1), act("take {}", "b")), HERE, step=1)
    m.add(item(key(3, 1), act("take {}", "c")), UNREWARDED, step=2)
    assert [case.text for case in m.cases] == ["take a", "take c"]


def test_least_successful_case_leaves_at_capacity():
    """(reuse_rewarded + 1) / (reused + 2): 3/6 for a, 1/4 for b, 1/2 for c that was never reused."""
    m = memory(capacity=3, eviction="least_successful")
    for number, (name, reused, rewarded) in enumerate([("a", 4, 2), ("b", 2, 0), ("c", 0, 0)]):
        case = m.add(item(key(number + 1.0, 1), act("take {}", name)), HERE, step=number)
        case.reused, case.reuse_rewarded = reused, rewarded
    m.add(item(key(9, 1), act("take {}", "d")), HERE, step=9)
    assert [case.text for case in m.cases] == ["take a", "take c", "take d"]
    m.add(item(key(10, 1), act("take {}", "e")), HERE, step=10)
    assert [case.text for case in m.cases] == ["take c", "take d", "take e"]  # among equals the older one leaves


SLOW_RANKS = {
    "oldest": lambda case: 0,
    "least_used": lambda case: case.rewarded + case.reused,
    "least_successful": lambda case: (case.reuse_rewarded + 1) / (case.reused + 2),
}


@pytest.mark.parametrize("eviction", SLOW_RANKS)
@pytest.mark.parametrize("capacity", [1, 2, 3, 7])
def test_who_leaves_is_who_a_slow_comparison_of_all_finds(eviction, capacity):
    """Counters are set meanwhile, up and down, also those of the new case and of one that leaves at once."""
    m, rng = memory(capacity=capacity, eviction=eviction), random.Random(0)
    staying: list[int] = []
    for step in range(300):
        for _ in range(rng.randrange(4) if m.cases else 0):
            counter = rng.choice(["reused", "reuse_rewarded", "rewarded"])
            setattr(rng.choice(m.cases), counter, rng.randrange(4))
        if rng.random() < 0.1 and m.cases:
            gone = rng.choice(m.cases)
            m.discard(m.key_of(gone), gone.template)
            staying.remove(gone.id)
        if len(staying) == capacity:
            rank = SLOW_RANKS[eviction]
            staying.remove(min(m.cases, key=lambda case: (rank(case), case.id)).id)
        staying.append(m.add(item(key(step, 1), act("look")), HERE if step % 3 else UNREWARDED, step=step).id)
        assert [case.id for case in m.cases] == staying
        assert sorted(m.situations) == staying


@pytest.mark.parametrize("eviction", ["least_used", "least_successful"])
def test_what_is_kept_to_find_who_leaves_does_not_grow(eviction):
    m = memory(capacity=3, eviction=eviction)
    for step in range(400):
        m.add(item(key(step, 1), act("look")), HERE, step=step)
        assert not m._leaving.touched or step < 3
        for case in m.cases:
            case.reused, case.reuse_rewarded = 400 - step, step
        assert len(m._leaving._heap) <= 2 * 4 + 64


@pytest.mark.parametrize("eviction", ["least_used", "least_successful"])
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda case: pickle.loads(pickle.dumps(case)),
        replace,
        lambda case: Case(**asdict(case) | {"provenance": case.provenance}),
    ],
)
def test_a_copy_of_a_case_is_equal_and_counts_for_itself_alone(eviction, copied):
    m = memory(capacity=2, eviction=eviction)
    first, second = (m.add(item(key(n, 1), act("take {}", "cup")), HERE, step=n) for n in (1, 2))
    twin = copied(first)
    assert twin == first == twin
    assert asdict(twin) == asdict(first)
    twin.reused = twin.reuse_rewarded = 50
    assert twin != first
    second.reused, second.reuse_rewarded = 9, 9
    m.add(item(key(3, 1), act("take {}", "cup")), HERE, step=3)
    assert m.cases[0] is second


def test_a_case_that_is_not_here_has_no_key():
    m, other = memory(), memory()
    with pytest.raises(ValueError, match="not in this memory"):
        m.key_of(other.add(item(key(1, 1), act("look")), HERE, step=1))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab")), max_size=25), st.integers(1, 5))
def test_memory_is_a_bounded_set_whose_keys_stay_beside_their_cases(additions, capacity):
    m = memory(capacity=capacity)
    for step, (value, template) in enumerate(additions):
        m.add(item(key(value, 1), act(template)), Provenance("g", 0, 0, value, 1.0), step=step)
        pairs = [(tuple(m.key_of(case).tolist()), case.template) for case in m.cases]
        assert len(pairs) == len(set(pairs)) == len(m.index) <= capacity
        assert all(k[0] == case.provenance.step for (k, _), case in zip(pairs, m.cases, strict=True))
        assert (float(value), 1.0) in {k for k, t in pairs if t == template}


# -- several neighbours ----------------------------------------------------------------------------------------


def voters() -> CaseMemory:
    """Cosines with (1, 0): 0.96 take, 0.8 drop, 0.6 drop, 0 open."""
    m = memory()
    for step, (x, y, template) in enumerate([(24, 7, "take"), (4, 3, "drop"), (3, 4, "drop"), (0, 1, "open")]):
        m.add(item(key(x, y), act(template)), HERE, step=step)
    return m


@pytest.mark.parametrize(
    ("neighbours", "threshold", "winner", "relevance"),
    [
        (1, 0.5, "take", 0.96),
        (2, 0.5, "take", 0.96),  # 0.96 against 0.8
        (3, 0.5, "drop", 0.8),  # 0.96 against 0.8 + 0.6
        (9, 0.7, "take", 0.96),  # the third is not above the threshold
        (9, 0.97, None, None),
    ],
)
def test_the_nearest_cases_vote_with_their_relevance(neighbours, threshold, winner, relevance):
    (found,) = voters().query(key(1, 0)[None], threshold=threshold, neighbours=neighbours)
    assert [match.case.template for match in found] == ([winner] if winner else [])
    assert [match.relevance for match in found] == ([pytest.approx(relevance)] if winner else [])


@pytest.mark.parametrize("neighbours", [2, 3, 5, 9])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_the_winner_is_that_of_a_slow_vote(neighbours, threshold):
    """Similarities of few values, so that they tie, among cases of few templates and counts."""
    rng, chosen = random.Random(neighbours), set()
    for _ in range(60):
        m, values = memory(threshold=threshold, neighbours=neighbours), []
        for number in range(rng.randrange(1, 9)):
            values.append(rng.choice([0.0, 0.25, 0.5, 0.75]))
            case = m.add(
                item(key(number, 1), act(rng.choice(["take", "drop", "open"]))), HERE, step=rng.randrange(3)
            )
            case.rewarded = rng.randrange(3)
        m.index.similarities = lambda keys, values=tuple(values): torch.tensor([values])
        all_of_them = zip(values, m.cases, strict=True)
        near = [(value, case.rewarded, case.last_step, case.id, case) for value, case in all_of_them]
        near = sorted([each for each in near if each[0] > threshold], reverse=True, key=lambda each: each[:4])
        votes: dict[str, float] = {}
        for value, *_, case in near[:neighbours]:
            votes[case.template] = votes.get(case.template, 0) + value
        (found,) = m.retrieve(key(1, 1)[None])
        most = max(votes.values(), default=0)
        best = [each for each in near if votes.get(each[4].template) == most]
        assert [(match.relevance, match.case.id) for match in found] == [(each[0], each[3]) for each in best[:1]]
        chosen |= {match.case.template for match in found}
    assert len(chosen) == 3


def test_a_tied_vote_goes_to_the_template_with_the_more_similar_case():
    m = memory()
    m.add(item(key(1, 0), act("drop")), HERE, step=1)
    m.add(item(key(2, 0), act("take")), HERE, step=2)  # as similar, and more recent
    (found,) = m.query(key(1, 0)[None], threshold=0.5, neighbours=2)
    assert [match.case.template for match in found] == ["take"]


def test_the_nearest_case_of_a_template():
    keys = torch.stack([key(1, 0), key(1, 0), key(1, 0)])
    assert voters().nearest(keys, ["drop", "open", "eat"]) == [pytest.approx(0.8), 0.0, 0.0]
    assert memory().nearest(keys, ["drop", "open", "eat"]) == [0.0, 0.0, 0.0]


# -- changing what is there ------------------------------------------------------------------------------------


def test_a_case_is_discarded_by_key_and_template():
    m = voters()
    m.discard(key(4, 3), "take")  # there is none
    m.discard(key(4, 3), "drop")
    assert [case.template for case in m.cases] == ["take", "drop", "open"]
    assert m.add(item(key(4, 3), act("drop")), HERE, step=9).id == 4
    assert len(m.index) == 4


def counted(case: Case, other: Case) -> None:
    """Give it the counts of the other one."""
    for name in COUNTS:
        setattr(case, name, getattr(other, name))


def take_in(m: CaseMemory, case: Case, its_key: torch.Tensor) -> None:
    stored = StoredCases([case], its_key[None], [GRAPH], "test", "", case.id + 1)
    m.merge(stored, stored.keys)


def joined_by_keys(stays: Case, leaves: Case) -> CaseMemory:
    """Two cases whose keys become equal; the preferred one stays."""
    m = memory()
    for number, case in enumerate((stays, leaves)):
        added = m.add(item(key(number, 1), act("drop")), HERE, step=0)
        counted(added, case)
    m.replace_keys(torch.stack([key(1, 1), key(1, 1)]))
    return m


def joined_by_merging(stays: Case, leaves: Case) -> CaseMemory:
    """A stored case that is here already."""
    m = memory()
    counted(m.add(item(key(1, 1), act("drop")), HERE, step=0), stays)
    take_in(m, leaves, key(1, 1))
    return m


COUNTS = ("rewarded", "reused", "reuse_rewarded", "last_step")


@pytest.mark.parametrize("join", [joined_by_keys, joined_by_merging])
@pytest.mark.parametrize(
    ("stays", "leaves", "together"),
    [
        ((3, 4, 2, 50), (2, 7, 5, 90), (5, 11, 7, 90)),  # the later step is the other's
        ((3, 4, 2, 90), (2, 7, 5, 50), (5, 11, 7, 90)),
        ((1, 0, 0, 9), (0, 0, 0, 3), (1, 0, 0, 9)),
    ],
)
def test_equal_cases_become_one_with_the_counts_of_both(join, stays, leaves, together):
    given, other = (
        Case(7, "drop", (), "drop", HERE, **dict(zip(COUNTS, row, strict=True))) for row in (stays, leaves)
    )
    m = join(given, other)
    assert [tuple(getattr(case, name) for name in COUNTS) for case in m.cases] == [together]
    assert len(m.index) == len(m.situations) == 1


def test_new_keys_join_cases_that_become_equal():
    m = voters()
    m.cases[1].rewarded, m.cases[1].reused, m.cases[2].reused, m.cases[2].reuse_rewarded = 3, 1, 4, 2
    m.replace_keys(torch.stack([key(1, 1), key(2, 2), key(2, 2), key(3, 3)]))
    assert [case.template for case in m.cases] == ["take", "drop", "open"]
    joined = m.cases[1]
    assert (joined.id, joined.rewarded, joined.reused, joined.reuse_rewarded) == (1, 4, 5, 2)
    assert torch.equal(m.index.keys(), torch.stack([key(1, 1), key(2, 2), key(3, 3)]))
    assert m.add(item(key(2, 2), act("drop")), HERE, step=9) is joined


def fills_up(m: CaseMemory) -> None:
    m.capacity = 2
    m.add(item(key(9, 9), act("sing"), GRAPH), HERE, step=9)


def takes_in(m: CaseMemory) -> None:
    m.capacity = 3
    take_in(m, Case(40, "sing", (), "sing", HERE), key(9, 9))


LEAVING = {
    "eviction": fills_up,
    "eviction by a merge": takes_in,
    "discard": lambda m: m.discard(key(4, 3), "drop"),
    "new keys": lambda m: m.replace_keys(torch.stack([key(1, 1), key(2, 2), key(2, 2), key(3, 3)])),
}


@pytest.mark.parametrize("leaves", LEAVING.values(), ids=LEAVING)
def test_what_leaves_the_memory_leaves_nothing_behind(leaves, tmp_path):
    m = voters()
    leaves(m)
    kept = {case.id for case in m.cases}
    assert kept != {0, 1, 2, 3}
    assert set(m.situations) == kept
    assert len(m.index) == len(m)
    m.save(tmp_path)
    again = memory()
    again.load(tmp_path)
    assert again.situations == m.situations
    for number, case in enumerate(again.cases):  # each is found by its key, none twice
        assert again.add(item(again.key_of(case), act(case.template)), HERE, step=1) is again.cases[number]


@pytest.mark.parametrize("leaving", ["", "drop", "open", "take drop open"])
def test_numbers_are_never_given_twice_also_after_a_checkpoint(tmp_path, leaving):
    """Whichever cases have left before, also the newest one or all."""
    m = memory()
    for step, template in enumerate(["take", "drop", "open"]):
        m.add(item(key(step, 1), act(template)), HERE, step=step)
    for template in leaving.split():
        m.discard(key(["take", "drop", "open"].index(template), 1), template)
    m.save(tmp_path)
    again = memory()
    again.load(tmp_path)
    for reader in (m, again):
        assert reader.add(item(key(5, 5), act("sing")), HERE, step=9).id == 3


# -- files -----------------------------------------------------------------------------------------------------


def test_cases_of_another_memory_are_added_or_counted(tmp_path):
    m, other = voters(), memory()
    other.add(item(key(4, 3), act("drop"), GRAPH), HERE, step=70).reused = 2
    other.add(item(key(8, 8), act("sing"), GRAPH), HERE, step=71)
    other.save(tmp_path)
    stored = read_cases(tmp_path)
    m.merge(stored, stored.keys)
    assert [(case.template, case.id, case.rewarded) for case in m.cases] == [
        ("take", 0, 1), ("drop", 1, 2), ("drop", 2, 1), ("open", 3, 1), ("sing", 4, 1),
    ]  # fmt: skip
    assert (m.cases[1].reused, m.cases[1].last_step, m.situations[4]) == (2, 70, GRAPH)
    assert m.add(item(key(8, 8), act("sing")), HERE, step=99) is m.cases[4]


plain = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
graphs = st.builds(StateGraph.of, st.lists(st.tuples(st.text(), st.text(), st.text())), st.lists(st.text()))
nested = st.recursive(
    plain | graphs, lambda parts: st.lists(parts, max_size=3).map(tuple) | st.frozensets(st.text(), max_size=3)
)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(situation=nested)
def test_situations_read_back_equal(tmp_path, situation):
    m = memory()
    m.add(item(key(1, 2), act("look"), situation), HERE, step=1)
    m.add(item(key(2, 2), act("look"), situation), HERE, step=1)
    m.save(tmp_path)
    assert (tmp_path / "situations.jsonl").read_text().count("\n") == (situation is not None)  # once for both
    again = memory()
    again.load(tmp_path)
    assert list(again.situations.values()) == [situation, situation]


def test_a_situation_of_another_kind_is_left_out(tmp_path):
    m = memory()
    m.add(item(key(1, 2), act("look"), object()), HERE, step=1)
    m.save(tmp_path)
    again = memory()
    again.load(tmp_path)
    assert (len(again), again.situations) == (1, {0: None})


def test_saved_memory_reads_back_equal(tmp_path):
    m = memory()
    m.add(item(key(1, 2), act("put {} on {}", "café cup", "rack"), GRAPH), HERE, step=4).reused = 3
    m.add(item(key(2, 1), act("look")), UNREWARDED, step=9)
    m.save(tmp_path)
    again = memory()
    again.load(tmp_path)
    assert again.cases == m.cases
    assert again.situations == m.situations == {0: GRAPH, 1: None}
    assert torch.equal(again.index.keys(), m.index.keys())
    assert again.add(item(key(2, 1), act("look")), HERE, step=11) is again.cases[1]
    assert again.add(item(key(5, 5), act("look")), HERE, step=12).id == 2


def test_empty_memory_reads_back_empty(tmp_path):
    memory().save(tmp_path)
    again = memory()
    again.add(item(key(1, 2), act("look")), HERE, step=1)
    again.load(tmp_path)
    assert len(again) == len(again.index) == 0


def test_memory_of_another_encoder_is_refused_with_both_names(tmp_path):
    memory().save(tmp_path)
    with pytest.raises(RunFolderError, match=r"stored: test\n  now:    other"):
        CaseMemory(DenseIndex(), identity="other").load(tmp_path)


@pytest.mark.parametrize("damage", ["missing", "cut", "not json", "field", "count"])
def test_damaged_memory_files_are_named(tmp_path, damage):
    m = memory()
    m.add(item(key(1, 2), act("look")), HERE, step=4)
    m.add(item(key(2, 2), act("look")), HERE, step=4)
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


# What it costs


def test_equal_situations_are_kept_once_and_what_left_is_let_go():
    m = memory(capacity=10)
    for number in range(500):
        origin = Provenance(f"game {number}", number, 1, 1, 1.0)
        m.add(item(key(number, 1), act("drop {}", f"{number}"), ("room", str(number // 2))), origin, step=number)
        staying = range(max(0, number - 9), number + 1)
        assert [case.text for case in m.cases] == [f"drop {each}" for each in staying]
        assert [case.provenance.seed for case in m.cases] == [*staying]
        assert [*m.situations.values()] == [("room", str(each // 2)) for each in staying]
    kept = list(m.situations.values())
    assert len({id(each) for each in kept}) == len(set(kept)) == 5
    for each in ("situation", "action", "origin"):
        assert len(m._cases._shared[each]) <= 2 * 11 + 65


def test_the_largest_numbers_that_a_file_may_hold_are_held_and_added_up(tmp_path):
    most, origin = 2**53 - 1, Provenance("g", 2**63 - 1, 2**53 - 1, 2**53 - 1, 1e300)
    given = Case(most - 1, "look", (), "look", origin, most, most, most, (), most)
    stored = StoredCases([given], key(1, 1)[None], [None], "", "", most)
    m = memory()
    m.merge(stored, stored.keys)
    m.save(tmp_path)
    m.load(tmp_path)
    assert m.cases == [given]
    m.merge(stored, stored.keys)
    assert [(case.rewarded, case.reused, case.reuse_rewarded) for case in m.cases] == [(2 * most,) * 3]


def test_nothing_is_known_of_a_case_that_is_not_here():
    m = memory()
    for number in range(5):
        m.add(item(key(number, 1), act("look"), ("room", str(number))), HERE, step=number)
    gone = m.cases[2]
    m.discard(key(2, 1), "look")
    assert [*m.situations] == [0, 1, 3, 4]
    for number in (-1, 2, 5):
        assert number not in m.situations
        assert m.situations.get(number) is None
    with pytest.raises(ValueError, match="not in this memory"):
        m.key_of(gone)
    gone.reused = 7
    assert [case.reused for case in m.cases] == [0] * 4


@pytest.mark.parametrize("cases", [4000, 11000])
def test_a_case_takes_less_than_300_bytes_besides_its_situation(cases):
    """688 as an object of its own, with one for its provenance and for each of its numbers. 11,000 is just above
    where a dict grows."""
    m = CaseMemory(CodeIndex(32, "cpu"))
    keys = torch.randint(0, 32, (cases, 32), generator=torch.Generator().manual_seed(0))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, each in enumerate(keys):
            m.add(item(each, act("put {} on {}", "cup", "rack")), replace(HERE, episode=number), step=7 * number)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(m) == cases
    assert taken / cases < 300
