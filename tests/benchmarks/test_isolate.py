"""What a process of its own costs an environment: steps of a generated TWC game with and without, in one run."""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from cbr_isolate.environment import isolated
from cbr_twc.environment import TwcEnvironment
from cbrcore.interfaces import Build, Environment
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "smoke" / "text_cbr_generated.yaml"
MOST_MS = 20
"""A step through the pipe takes about 0.5 ms more; no tight bound."""


def play(environment: Environment, steps: int = 200) -> float:
    """Seconds per step of a fixed random policy; the first episode, in which answers are checked, left out."""
    rng, (game,), started, played = random.Random(0), environment.games("train"), 0.0, 0
    for episode in range(99):
        observation, ending = environment.reset(game, 0), None
        started = started if episode > 1 else time.perf_counter()
        while ending is None:
            result = environment.step(rng.choice(observation.admissible))
            observation, ending, played = result.observation, result.ending, played + (episode > 0)
        if played >= steps:
            break
    return (time.perf_counter() - started) / played


def test_steps_in_a_child(cache_dir: Path, benchmark: BenchmarkFixture) -> None:
    registry = load_plugins().registry
    recipe = load_recipe(RECIPE, overrides=["environment.games_per_split=1"], registry=registry)
    build = Build(cache_dir=cache_dir)
    with closing(TwcEnvironment(recipe.environment.settings, build)) as plain:
        within = play(plain)
    with closing(isolated(recipe, registry, build)) as child:
        apart = benchmark.pedantic(play, (child,), rounds=2, warmup_rounds=1)
    benchmark.extra_info |= {"ms_within": within * 1000, "ms_apart": apart * 1000, "ratio": apart / within}
    print(
        f"a step takes {within * 1000:.2f} ms, isolated {apart * 1000:.2f} ms: {apart / within:.1f} times as long"
    )
    assert (apart - within) * 1000 < MOST_MS
