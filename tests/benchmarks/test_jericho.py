"""How fast the Jericho environment is: observations with and without the search for valid actions, in one run."""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from cbr_jericho.config import JerichoConfig
from cbr_jericho.environment import JerichoEnvironment
from cbrcore.interfaces import Build

STEPS = 60
LEAST_GAIN = 20
"""How many times as fast a step is at least when its valid actions are in the cache."""


def play(environment: JerichoEnvironment, steps: int) -> float:
    """Seconds per step of a fixed random policy, the start of the engine left out."""
    rng = random.Random(0)
    observation = environment.reset("zork1", 0)
    started = time.perf_counter()
    for _ in range(steps):
        result = environment.step(rng.choice(observation.admissible))
        observation = environment.reset("zork1", 0) if result.ending else result.observation
    return (time.perf_counter() - started) / steps


def test_steps_from_the_cache(games_dir: Path, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """Zork I: searching for the valid actions, then the same steps again with all of them in the cache."""
    config = JerichoConfig(rom_dir=str(games_dir / "jericho"), transitions=0)
    with closing(JerichoEnvironment(config, Build(cache_dir=tmp_path))) as environment:
        cold = play(environment, STEPS)
        warm = benchmark.pedantic(play, (environment, STEPS), rounds=5, warmup_rounds=1)
        figures = environment.figures()
    assert figures["counts"]["searched"] <= STEPS + 1
    observed = figures["counts"]["cached"]
    benchmark.extra_info["cold_ms_per_step"] = cold * 1000
    benchmark.extra_info["warm_ms_per_step"] = warm * 1000
    benchmark.extra_info["warm_steps_per_second"] = 1 / warm
    benchmark.extra_info["worker_ms_per_step"] = {
        part: seconds * 1000 / observed for part, seconds in figures["seconds"].items() if part != "search"
    }
    assert cold / warm > LEAST_GAIN
