"""How fast the contexts of one step are: the shortcut against the dense formulas, as a ratio in one run."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import pytest
import torch
from dense_gat import dense_contexts
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

from cbr_seeded_gat.config import SeededGatConfig
from cbr_seeded_gat.encoder import SeededGat
from cbr_text_encoders.config import UntrainedConfig
from cbr_text_encoders.untrained import UntrainedEncoder
from cbrcore.interfaces import Build
from cbrcore.types import EntityTuple, StateGraph

torch.set_num_threads(1)

Step = tuple[StateGraph, list[EntityTuple]]


@pytest.fixture(scope="module")
def module() -> SeededGat:
    words = UntrainedEncoder(UntrainedConfig(dim=384), Build())
    return SeededGat(SeededGatConfig(layers=2), Build(text_encoder=words)).train(False)


def easy_step() -> Step:
    """15 actions on 10 nodes, as in the easy games of TextWorld Commonsense."""
    things, places = ["apple", "hat", "shirt"], ["fridge", "rack", "basket", "table", "shelf"]
    facts = [(thing, "in", "player") for thing in things] + [(place, "at", "room") for place in places]
    return StateGraph.of([*facts, ("player", "at", "room")]), [(thing, p) for thing in things for p in places]


def large_step() -> Step:
    """40 actions on 60 nodes and 120 edges."""
    draw = random.Random(0)
    nodes = [f"thing {i}" for i in range(60)]
    edges = draw.sample([(a, "by", b) for i, a in enumerate(nodes) for b in nodes[:i]], 120)
    return StateGraph.of(edges, nodes), [(*draw.sample(nodes, 2),) for _ in range(40)]


def _seconds(compute: Callable[[], Tensor], times: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        compute()
        return time.perf_counter() - start

    once()
    return statistics.median(once() for _ in range(times))


def test_shortcut_is_eight_times_as_fast_as_the_dense_formulas(module: SeededGat) -> None:
    graph, tuples = large_step()
    with torch.no_grad():
        fast = _seconds(lambda: module.contexts(graph, tuples), 9)
        slow = _seconds(lambda: dense_contexts(module, graph, tuples), 3)
    assert slow / fast >= 8, f"dense {1e3 * slow:.1f} ms, shortcut {1e3 * fast:.1f} ms"


@pytest.mark.parametrize("step", [easy_step, large_step])
def test_contexts_of_a_step(benchmark: BenchmarkFixture, module: SeededGat, step: Callable[[], Step]) -> None:
    graph, tuples = step()
    with torch.no_grad():
        contexts = benchmark(module.contexts, graph, tuples)
    assert contexts.shape == (len(tuples), 384)
