"""The memory against a plain list, after anything that may be done to it, for every kind of index."""

from __future__ import annotations

import copy
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from key_makers import KINDS, contexts, quantizer
from parts import act, item
from torch import Tensor

from cbr_keys import places
from cbr_memory.memory import CaseMemory
from cbrcore.interfaces import KeyIndex, RetainItem, StoredCases
from cbrcore.types import Case, Match, Provenance, StateGraph

DIM, PARTS = 6, 3
TEMPLATES = ("take {}", "drop {}", "look")
SITUATIONS = (None, StateGraph.of([("cup", "on", "table")]), ("a", 1))
POOL = torch.cat([contexts(6, DIM), 2 * contexts(2, DIM), -contexts(2, DIM), torch.zeros(1, DIM)])
"""Few contexts, so that keys repeat: some point the same way, some the opposite one, one nowhere."""

keys = st.integers(0, len(POOL) - 1)
templates = st.sampled_from(TEMPLATES)
rewards = st.sampled_from([0.0, 1.0])
rows = st.integers(0, 200)
thresholds = st.sampled_from([-1.0, 0.0, 0.3, 2 / 3, 0.7, 1.0])
neighbours = st.sampled_from([1, 2, 3, 50])


class OneByOne:
    """An index of somebody else, without the ability to remove a row."""

    def __init__(self, index: KeyIndex) -> None:
        self._index = index
        self.add, self.keep, self.similarities, self.keys = index.add, index.keep, index.similarities, index.keys

    def __len__(self) -> int:
        return len(self._index)


def new_index(kind: str) -> KeyIndex:
    return OneByOne(new_index("continuous")) if kind == "other" else quantizer(kind, DIM, PARTS).index()


def new_keys(kind: str, chosen: Sequence[int]) -> Tensor:
    made = quantizer("continuous" if kind == "other" else kind, DIM, PARTS)
    return made.keys(POOL[list(chosen)])


def preference(case: Case) -> tuple[int, int, int]:
    return case.rewarded, case.last_step, case.id


class PlainList:
    """Cases and their keys; every question looks at all of them."""

    def __init__(self, kind: str, capacity: int | None, eviction: str) -> None:
        self.kind, self.capacity, self.eviction = kind, capacity, eviction
        self.cases: list[Case] = []
        self.keys: list[Tensor] = []
        self.situations: list[object] = []
        self.next_id = 0

    def find(self, key: Tensor, template: str) -> int | None:
        found = [n for n, k in enumerate(self.keys) if torch.equal(k, key) and self.cases[n].template == template]
        assert len(found) <= 1
        return found[0] if found else None

    def add(self, key: Tensor, template: str, origin: Provenance, step: int, situation: object) -> None:
        row = self.find(key, template)
        if row is not None:
            self.cases[row].rewarded += origin.reward > 0
            self.cases[row].last_step = step
            return
        made = act(template, *["cup"] * template.count("{}"))
        rewarded = int(origin.reward > 0)
        self.put(Case(self.next_id, template, made.entities, made.text, origin, rewarded, 0, step, made.seeds),
                 key, situation)  # fmt: skip

    def put(self, case: Case, key: Tensor, situation: object) -> None:
        self.next_id = case.id + 1
        self.cases.append(case)
        self.keys.append(key)
        self.situations.append(situation)
        if self.capacity is not None and len(self.cases) > self.capacity:
            self.remove(min(range(len(self.cases) - 1), key=lambda row: self.rank(self.cases[row])))

    def rank(self, case: Case) -> tuple[float, int]:
        if self.eviction == "least_used":
            return case.rewarded + case.reused, case.id
        if self.eviction == "least_successful":
            return (case.reuse_rewarded + 1) / (case.reused + 2), case.id
        return 0, case.id

    def remove(self, row: int) -> None:
        for column in (self.cases, self.keys, self.situations):
            del column[row]

    def replace_keys(self, fresh: Tensor) -> None:
        cases, situations = self.cases, self.situations
        order = {id(case): n for n, case in enumerate(cases)}
        best: dict[tuple[str, str], Case] = {}
        for key, case in zip(fresh, cases, strict=True):
            other = best.get((str(key.tolist()), case.template), case)
            stays, leaves = sorted((other, case), key=preference, reverse=True)
            if stays is not leaves:
                count_also(stays, leaves)
            best[str(key.tolist()), case.template] = stays
        staying = sorted(order[id(case)] for case in best.values())
        self.cases, self.keys = [cases[n] for n in staying], [fresh[n] for n in staying]
        self.situations = [situations[n] for n in staying]

    def merge(self, stored: StoredCases, stored_keys: Tensor | None) -> None:
        for n, case in enumerate(stored.cases):
            assert stored_keys is not None
            row = self.find(stored_keys[n], case.template)
            if row is not None:
                count_also(self.cases[row], case)
            else:
                fresh = replace(case, id=max(case.id, self.next_id))
                self.put(fresh, stored_keys[n], stored.situations[n])

    def similarities(self, asked: Tensor) -> list[list[float]]:
        """Of an index of these keys alone; where each key counts for itself, of an index of that key alone."""
        if not self.keys:
            return [[] for _ in asked]
        if self.kind == "lsh":
            index = new_index("lsh")
            index.add(torch.stack(self.keys))
            return index.similarities(asked).tolist()
        if self.keys[0].dtype == torch.uint8:
            return [
                [float(torch.tensor(sum((q == k).tolist()) / len(q), dtype=torch.float32)) for k in self.keys]
                for q in asked
            ]
        columns = []
        for key in self.keys:
            index = new_index(self.kind)
            index.add(key[None])
            columns.append(index.similarities(asked)[:, 0].tolist())
        return [list(row) for row in zip(*columns, strict=True)]

    def query(self, asked: Tensor, threshold: float, neighbours: int) -> list[list[Match]]:
        return [self.answer(row, threshold, neighbours) for row in self.similarities(asked)]

    def answer(self, relevances: list[float], threshold: float, neighbours: int) -> list[Match]:
        tau = float(torch.tensor(threshold))  # as a float of the width of similarities
        found = [Match(case, r) for case, r in zip(self.cases, relevances, strict=True) if r > tau]
        found.sort(key=lambda match: (match.relevance, *preference(match.case)), reverse=True)
        if not found:
            return []
        if neighbours > 1:
            votes: dict[str, float] = defaultdict(float)
            for match in found[:neighbours]:
                votes[match.case.template] += match.relevance
            winner = max(votes, key=lambda template: votes[template])
            return [next(match for match in found if match.case.template == winner)]
        one_each: dict[str, Match] = {}
        for match in found:
            if match.relevance == found[0].relevance:
                one_each.setdefault(match.case.template, match)
        return list(one_each.values())

    def nearest(self, asked: Tensor, templates: Sequence[str]) -> list[float]:
        return [
            max((s for s, case in zip(row, self.cases, strict=True) if case.template == template), default=0.0)
            for row, template in zip(self.similarities(asked), templates, strict=True)
        ]


def count_also(stays: Case, other: Case) -> None:
    stays.rewarded += other.rewarded
    stays.reused += other.reused
    stays.reuse_rewarded += other.reuse_rewarded
    stays.last_step = max(stays.last_step, other.last_step)


class MemoryMachine(RuleBasedStateMachine):
    """Everything that a run, a refresh, an import and a resume do to a memory and its failures, in any order."""

    @initialize(
        kind=st.sampled_from([*KINDS, "other"]),
        capacity=st.none() | st.integers(1, 12),
        eviction=st.sampled_from(["oldest", "least_used", "least_successful"]),
        both=st.booleans(),
        spare=st.sampled_from([0, 2, 64]),
    )
    def begin(self, kind, capacity, eviction, both, spare):
        places.SPARE = spare
        self.kind, self.capacity, self.eviction, self.both = kind, capacity, eviction, both
        self.memory = self.new_memory()
        self.plain = PlainList(kind, capacity, eviction)
        self.failed = PlainList(kind, None, "oldest") if both else None
        self.step = 0
        self.held: list[tuple[Case, Case]] = []

    def teardown(self):
        places.SPARE = 64

    def new_memory(self) -> CaseMemory:
        failures = CaseMemory(new_index(self.kind), identity="fuzz") if self.both else None
        return CaseMemory(
            new_index(self.kind),
            identity="fuzz",
            capacity=self.capacity,
            eviction=self.eviction,
            failures=failures,
        )

    def stores(self) -> list[tuple[CaseMemory, PlainList]]:
        both = [(self.memory, self.plain)]
        return both if self.failed is None else [*both, (self.memory.failures, self.failed)]

    @rule(chosen=keys, template=templates, reward=rewards, situation=st.sampled_from(SITUATIONS))
    def add(self, chosen, template, reward, situation):
        self.step += 1
        key, origin = new_keys(self.kind, [chosen])[0], Provenance("game", 0, 1, self.step, reward)
        action = act(template, *["cup"] * template.count("{}"))
        case = self.memory.add(item(key, action, situation), origin, step=self.step)
        self.plain.add(key, template, origin, self.step, situation)
        assert case is self.memory.cases[self.plain.find(key, template)]

    @rule(count=st.integers(5, 30), data=st.data())
    def add_many(self, count, data):
        for _ in range(count):
            self.add(data.draw(keys), data.draw(templates), data.draw(rewards), None)

    @precondition(lambda self: self.plain.cases)
    @rule(row=rows, reused=st.integers(0, 5), rewarded=st.integers(0, 5))
    def set_counters(self, row, reused, rewarded):
        row %= len(self.plain.cases)
        for case in (self.memory.cases[row], self.plain.cases[row]):
            case.reused, case.reuse_rewarded = reused, rewarded

    @precondition(lambda self: self.plain.cases)
    @rule(row=rows)
    def hold(self, row):
        """A match of an earlier step, or of a game played beside this one: its case may have left meanwhile."""
        row %= len(self.plain.cases)
        self.held.append((self.memory.cases[row], self.plain.cases[row]))

    @precondition(lambda self: self.held)
    @rule(rewarded=st.booleans(), chosen=rows)
    def count_held(self, rewarded, chosen):
        for case in self.held[chosen % len(self.held)]:
            case.reused += 1
            case.reuse_rewarded += rewarded

    @rule(chosen=keys, template=templates)
    def discard(self, chosen, template):
        key = new_keys(self.kind, [chosen])[0]
        self.memory.discard(key, template)
        row = self.plain.find(key, template)
        if row is not None:
            self.plain.remove(row)

    @rule(chosen=keys, template=templates, reward=rewards, failed=st.booleans())
    def note_outcome(self, chosen, template, reward, failed):
        self.step += 1
        key, origin = new_keys(self.kind, [chosen])[0], Provenance("game", 0, 1, self.step, reward)
        item = RetainItem(key, act(template, *["cup"] * template.count("{}")), self.step, reward)
        self.memory.note_outcome(item, origin, failed=failed, step=self.step)
        if self.failed is None:
            return
        row = self.failed.find(key, template)
        if reward > 0 and row is not None:
            self.failed.remove(row)
        elif reward <= 0 and failed:
            self.failed.add(key, template, origin, self.step, None)

    @rule(data=st.data())
    def refresh(self, data):
        for memory, plain in self.stores():
            count = len(plain.cases)
            if count:
                fresh = new_keys(self.kind, data.draw(st.lists(keys, min_size=count, max_size=count)))
                memory.replace_keys(fresh)
                plain.replace_keys(fresh)

    @rule(chosen=st.lists(st.tuples(keys, templates, st.integers(0, 40)), max_size=8))
    def merge(self, chosen):
        origin = Provenance("elsewhere", 1, 1, 1, 1.0)
        numbers = sorted({number for _, _, number in chosen})
        given = [Case(n, template, (), template, origin, 1, n % 3, n) for n, (_, template, _) in zip(
            numbers, chosen, strict=False)]  # fmt: skip
        given_keys = new_keys(self.kind, [k for k, _, _ in chosen[: len(given)]]) if given else None
        stored = StoredCases(given, given_keys, [SITUATIONS[n % 3] for n in range(len(given))], "x", "", 99)
        self.memory.merge(stored, given_keys)
        self.plain.merge(copy.deepcopy(stored), given_keys)

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            fresh = self.new_memory()
            for name, store in self.memory.stores().items():
                store.save(Path(folder) / name)
                fresh.stores()[name].load(Path(folder) / name)
                assert fresh.stores()[name]._next_id == store._next_id
        self.memory, self.held = fresh, []

    @rule(asked=st.lists(keys, max_size=4), threshold=thresholds, neighbours=neighbours)
    def query(self, asked, threshold, neighbours):
        wanted = new_keys(self.kind, asked)
        found = self.memory.query(wanted, threshold=threshold, neighbours=neighbours)
        assert found == self.plain.query(wanted, threshold, neighbours)
        assert all(any(match.case is case for case in self.memory.cases) for row in found for match in row)
        assert self.memory.similarities(wanted).tolist() == self.plain.similarities(wanted)

    @rule(asked=st.lists(keys, max_size=4), threshold=thresholds, neighbours=neighbours)
    def retrieve(self, asked, threshold, neighbours):
        wanted = new_keys(self.kind, asked)
        self.memory.threshold, self.memory.neighbours = threshold, neighbours
        found, expected = self.memory.retrieve(wanted), self.plain.query(wanted, threshold, neighbours)
        if self.failed is not None:
            expected = [
                [replace(match, against=self.failed.nearest(key[None], [match.case.template])[0]) for match in row]
                for key, row in zip(wanted, expected, strict=True)
            ]
        assert found == expected

    @invariant()
    def they_are_equal(self):
        for memory, plain in self.stores():
            assert memory.cases == plain.cases
            assert memory.situations == {
                case.id: situation for case, situation in zip(plain.cases, plain.situations, strict=True)
            }
            assert memory._next_id == plain.next_id
            assert len(memory) == len(memory.index) == len(plain.cases)
            if plain.cases:
                assert torch.equal(memory.index.keys(), torch.stack(plain.keys))
            for case, key in zip(memory.cases, plain.keys, strict=True):
                assert torch.equal(memory.key_of(case), key)


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(stateful_step_count=30)
