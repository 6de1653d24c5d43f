"""What the memory does in each step costs the same with a thousand cases and with a hundred thousand."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import pytest
import torch
from key_makers import contexts, many_cases, quantizer
from parts import act, item
from test_memory import HERE, UNREWARDED

from cbr_memory.memory import CaseMemory

SIZES = (1_000, 10_000, 100_000)
ALLOWANCE = 6.0
"""How much slower a step may be with a hundred times as many cases. Lists close a gap (10 us at 100,000 cases) and
caches run out; to copy or search all keys would be 50 to 100 times as slow."""
ASKED = 60
DIM, PARTS = 48, 12


def filled(kind: str, size: int, eviction: str) -> CaseMemory:
    made = quantizer(kind, DIM, PARTS)
    memory = CaseMemory(made.index(), capacity=size, eviction=eviction)
    keys = made.keys(contexts(size, DIM))
    memory.merge(many_cases(keys), keys)
    assert len(memory) == size
    return memory


def milliseconds(
    do: Callable[[int], object], calls: int = ASKED, of: Callable[[list[float]], float] = statistics.median
) -> float:
    """The median of some calls; the rare one that makes a table anew is counted in another test."""
    times = []
    for number in range(calls):
        start = time.perf_counter()
        do(number)
        times.append(time.perf_counter() - start)
    return 1000 * of(times)


def steps(kind: str, size: int, eviction: str) -> dict[str, float]:
    """name -> ms. An addition is one to a full memory, after the trainer has counted a reuse."""
    memory, made = filled(kind, size, eviction), quantizer(kind, DIM, PARTS)
    new, cases = made.keys(contexts(ASKED + 1, DIM, seed=5)), list(memory.cases)

    def add(number: int) -> None:
        cases[7919 * number % size].reused += 1
        memory.add(item(new[number], act("take {}", "cup")), HERE, step=1)

    add(ASKED)  # what is made when the memory is full for the first time
    times = {f"add, {eviction} leaves": milliseconds(add)}
    chosen = memory.cases[:: size // ASKED]
    times["key_of"] = milliseconds(lambda number: memory.key_of(chosen[number]))
    keys = [memory.key_of(case) for case in chosen]
    times["discard"] = milliseconds(lambda number: memory.discard(keys[number], chosen[number].template))
    asked = made.keys(contexts(10, DIM, seed=3))
    fastest = partial(milliseconds, calls=15, of=min)  # now and then garbage is collected
    times["query of 10"] = fastest(lambda _: memory.query(asked, threshold=0.5))
    times["nearest of 10"] = fastest(lambda _: memory.nearest(asked, ["take {} 7"] * 10))
    times["similarities of 10"] = fastest(lambda _: memory.similarities(asked))
    return times


@pytest.mark.parametrize(
    ("kind", "eviction"),
    [("vq", "oldest"), ("vq", "least_used"), ("vq", "least_successful"),
     ("continuous", "oldest"), ("lsh", "oldest")],
)  # fmt: skip
def test_a_step_costs_the_same_however_many_cases_there_are(kind, eviction):
    """But for similarities, which are one product with all keys; a search costs little more than these."""
    small, middle, large = (steps(kind, size, eviction) for size in SIZES)
    for name in large:
        print(f"\n{kind:10} {name:28} {small[name]:8.3f} {middle[name]:8.3f} {large[name]:8.3f} ms", end="")
    searches = {"query of 10", "nearest of 10", "similarities of 10"}
    assert {name for name in large.keys() - searches if large[name] > ALLOWANCE * small[name]} == set()
    assert max(large[name] for name in searches) < 4 * large["similarities of 10"] + 2


@pytest.mark.parametrize("kind", ["vq", "continuous", "lsh"])
def test_removing_one_at_a_time_makes_the_table_anew_a_few_times(kind):
    memory, made = filled(kind, 2000, "oldest"), 0
    keep = memory.index.keep

    def counting(rows: object) -> None:
        nonlocal made
        made += 1
        keep(rows)

    memory.index.keep = counting
    keys = quantizer(kind, DIM, PARTS).keys(contexts(2000, DIM, seed=1))
    for number, key in enumerate(keys):
        memory.add(item(key, act("drop")), UNREWARDED, step=number)
    assert 1 <= made <= 8  # each time an eighth has left
    assert torch.equal(memory.index.keys(), keys)
