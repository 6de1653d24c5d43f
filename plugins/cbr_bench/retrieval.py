"""What finding a case costs, and what a step costs beside it, however many cases there are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbr_bench.figures import Figure, median_ms
from cbr_bench.measures import Setting
from cbr_keys.codes import CodeIndex
from cbr_memory.memory import CaseMemory
from cbrcore.interfaces import RetainItem
from cbrcore.types import Action, Case, Provenance

PARTS, CODES, TAU = 32, 32, 0.7
"""D, K and the threshold of the paper."""
SIZES = (10**4, 10**5, 10**6)
ASKED = 60
SIZES_OF_MEMORIES = (10**2, 10**5)


def retrieval(setting: Setting) -> Iterator[Figure]:
    """One query at a time: the best case above tau, against comparing all, and faiss if it is installed."""
    by_size = []
    for size in SIZES[:2] if setting.quick else SIZES:
        figures = _of_size(size)
        yield from figures
        by_size.append(figures[0])
    yield Figure(by_size[-1].what, by_size[-1].value, "ms", f"{SIZES[0]:,} cases", by_size[0].value)


def _of_size(size: int) -> list[Figure]:
    codes = random_codes(size, seed=size)
    queries = near(codes)
    index = CodeIndex(PARTS, "cpu")
    index.add(codes)
    index.best_above(queries[:1], TAU)  # makes its tables
    what = f"best case above tau, {size:,} cases"
    fast = median_ms(lambda row: index.best_above(queries[row : row + 1], TAU), range(ASKED))
    whole = median_ms(lambda row: index.similarities(queries[row : row + 1]).amax(), range(9))
    figures = [Figure(what, fast, "ms", "all compared", whole)]
    if (flat := faiss_index(codes)) is not None:
        bits = one_bit_each(queries)
        theirs = median_ms(lambda row: flat.search(bits[row : row + 1], 1), range(9))
        figures.append(Figure(what, fast, "ms", "faiss IndexBinaryFlat", theirs))
    return figures


def step(setting: Setting) -> Iterator[Figure]:
    """What a memory does in a step beside searching: it gives the key of a reused case and counts a repeated
    reward; it takes in a new case, for which the oldest one leaves."""
    small, large = (_bookkeeping(size) for size in SIZES_OF_MEMORIES)
    for what in large:
        yield Figure(f"{what}, 100,000 cases", large[what], "ms", "100 cases", small[what])


def ram(setting: Setting) -> Iterator[Figure]:
    """Bytes that a case takes besides its situation, also with the tables that an index makes when it is asked;
    against an object for each case, found by row, and by the bytes of its key and its template."""
    size = SIZES[0] if setting.quick else SIZES[1]
    keys = random_codes(size, seed=3)
    action = Action("take cup", "take {}", ("cup",))

    def kept() -> Iterator[CaseMemory]:
        memory = CaseMemory(CodeIndex(PARTS, "cpu"), threshold=TAU)
        for number, key in enumerate(keys):
            memory.add(RetainItem(key, action, 0, 1.0), Provenance("game", 0, number, 0, 1.0), step=7 * number)
        yield memory
        memory.retrieve(keys[:1])
        yield memory

    def plain() -> Iterator[object]:
        index, rows, known = CodeIndex(PARTS, "cpu"), [], {}
        for number, key in enumerate(keys):
            index.add(key[None])
            origin = Provenance("game", 0, number, 0, 1.0)
            rows.append(Case(number, action.template, action.entities, action.text, origin, last_step=7 * number))
            known[key.numpy().tobytes(), action.template] = rows[-1]
        yield index, rows, known

    (objects,) = taken(plain())
    for what, value in zip(("RAM of a case", "RAM of a case, index's tables too"), taken(kept()), strict=True):
        yield Figure(f"{what}, {size:,} cases", value / size, "bytes", "an object each", objects / size)


def taken(made: Iterator[object]) -> list[int]:
    """Bytes that are taken after each step of the making."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        return [tracemalloc.get_traced_memory()[0] - before for _ in made]
    finally:
        tracemalloc.stop()


def random_codes(count: int, seed: int = 0) -> Tensor:
    """[count, D] bytes."""
    return torch.randint(CODES, (count, PARTS), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def near(codes: Tensor) -> Tensor:
    """[ASKED, D]: codes of the table with 0 to 11 places changed; three of four are above tau."""
    rng = np.random.default_rng(1)
    queries = codes[rng.integers(len(codes), size=ASKED)].clone()
    for row in range(ASKED):
        changed = rng.permutation(PARTS)[: row % 12]
        queries[row, changed] = (queries[row, changed] + 1) % CODES
    return queries


def one_bit_each(codes: Tensor) -> np.ndarray:
    """[n, D K / 8] bytes: a bit for each code, so that two codes differ in twice as many bits as places."""
    bits = codes.numpy()[:, :, None] == np.arange(CODES)
    return np.packbits(bits.reshape(len(codes), -1), axis=1)


def faiss_index(codes: Tensor) -> Any:
    """An exact index of faiss over the codes, on one thread; None where faiss is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    faiss.omp_set_num_threads(1)
    index = faiss.IndexBinaryFlat(PARTS * CODES)
    for first in range(0, len(codes), 100_000):
        index.add(one_bit_each(codes[first : first + 100_000]))
    return index


def _bookkeeping(size: int) -> dict[str, float]:
    """What is done -> its median milliseconds, with so many cases."""
    memory = CaseMemory(CodeIndex(PARTS, "cpu"), capacity=size, threshold=TAU)
    here, action = Provenance("game", 0, 1, 0, 1.0), Action("take cup", "take {}", ("cup",))
    keys = random_codes(size + 4 * ASKED, seed=2)
    for number, key in enumerate(keys[:size]):
        memory.add(RetainItem(key, action, 0, 1.0), here, step=number)

    def reuse(number: int) -> None:
        case = memory.cases[7919 * number % size]
        memory.add(RetainItem(memory.key_of(case), action, 0, 1.0), here, step=size + number)

    def renew(number: int) -> None:
        memory.add(RetainItem(keys[size + number], action, 0, 1.0), here, step=size + number)

    steps = range(4 * ASKED)
    return {
        "a reused step's bookkeeping": median_ms(reuse, steps),
        "a new case for an old one": median_ms(renew, steps),
    }
