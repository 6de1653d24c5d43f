"""Evidence is a sum over all cases: with a hundred thousand of them a goal is weighed in a few milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cbr_goals.config import KernelConfig
from cbr_goals.fitting import Evidence, Tried, Weights, fit, grouped
from cbr_goals.kernel import Kernel, KernelIndex
from cbrcore.interfaces import Build
from cbrcore.testing import WordHashEncoder

torch.set_num_threads(1)

SIZES = (100, 1_000, 10_000, 100_000)
DIM, NAMES = 384, 300
"""Width of a text, and how many different names cases have in each place."""


class Texts(WordHashEncoder):
    dim = DIM


def keys(count: int, seed: int = 0) -> Tensor:
    """[count, d] of that many different names."""
    draw = torch.Generator().manual_seed(seed)
    names = functional.pad(functional.normalize(torch.randn(NAMES, DIM, generator=draw), dim=1), (0, 1))
    numbers = torch.randint(NAMES, (count, 2), generator=draw)
    return names[numbers].flatten(1)


def filled(count: int) -> tuple[KernelIndex, Tensor]:
    stored = keys(count)
    index = Kernel(KernelConfig(), Build(text_encoder=Texts(), context_dim=stored.shape[1])).index()
    index.add(stored)
    return index, stored


def fastest(do: Callable[[], object], calls: int = 20) -> float:
    """Milliseconds; other programs come and go."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        do()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def test_a_goal_is_weighed_in_milliseconds_however_many_cases_there_are():
    query, took, products = keys(1, seed=1), {}, {}
    for size in SIZES:
        index, stored = filled(size)
        together = torch.einsum("nvw,vw->nv", stored.unflatten(1, (2, -1)), query.unflatten(1, (2, -1))[0])
        expected = ((together.double() - 1) @ index.kernel.theta.detach()).exp().sum()
        assert index.total(query).item() == pytest.approx(expected.item(), rel=1e-5)
        took[size] = fastest(lambda index=index: index.total(query))
        products[size] = fastest(lambda stored=stored: stored @ query.T, calls=5)
        print(f"\n{size:7} cases {took[size]:7.2f} ms, product with all keys {products[size]:7.2f} ms", end="")
    assert took[100_000] < 5
    assert took[100_000] < products[100_000] / 4
    assert took[100_000] < 30 * took[1_000]  # a hundred times the cases


def test_a_fit_costs_less_than_a_few_looks_at_every_pair_of_try_and_case():
    draw = torch.Generator().manual_seed(0)
    cosines = [torch.rand(40, 30, 1, generator=draw, dtype=torch.float64) for _ in range(2)]
    rows = torch.randint(40, (400, 2), generator=draw)
    game, real = torch.arange(400) % 15, torch.rand(2, 400, generator=draw, dtype=torch.float64)
    groups = grouped(list(zip(game.tolist(), rows[:, 0].tolist(), strict=True)))
    tried = Tried(
        *cosines,
        torch.ones(40, 30, dtype=torch.bool),
        rows,
        torch.randint(30, (60, 2), generator=draw),
        *real,
        torch.rand(400, generator=draw) < 0.3,
        game,
        torch.arange(60) % 15,
        groups,
    )
    theta = torch.tensor([3.0, 3.0], dtype=torch.float64)

    def look() -> float:
        first, second, cases = cosines[0].tolist(), cosines[1].tolist(), tried.cases.tolist()
        total = 0.0
        for one, other in rows.tolist():
            for left, right in cases:
                total += 2.718 ** (3 * (first[one][left][0] - 1) + 3 * (second[other][right][0] - 1))
        return total

    values = torch.cat([theta, theta.new_tensor([2.0, 0.0, 1.0, -5.0])])
    evidence = Evidence(tried)
    fitted, looked = fastest(lambda: fit(tried, theta, Weights()), calls=3), fastest(look, calls=3)
    once = fastest(lambda: evidence.scores(values))
    print(f"\nfit {fitted:.0f} ms, scores {once:.2f} ms, a look at all pairs {looked:.1f} ms", end="")
    assert once < looked / 3
    assert fitted < 100 * looked
