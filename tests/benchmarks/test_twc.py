"""How fast the TWC environment is: a random policy here and in plain TextWorld, as a ratio in one run."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from cbr_bench.training import WANTED, textworld_rate
from cbr_twc.config import TwcConfig
from cbr_twc.environment import TwcEnvironment
from cbrcore.interfaces import Build

pytestmark = pytest.mark.filterwarnings("ignore::jericho.UnsupportedGameWarning")


def our_rate(environment: TwcEnvironment, passes: int) -> float:
    """Steps per CPU second over the training games, the checked first episodes left out."""
    rng, steps, started = random.Random(0), 0, 0.0
    for number in range(passes + 1):
        if number == 1:
            steps, started = 0, time.process_time()
        for game in environment.games("train"):
            observation, ending = environment.reset(game, 0), None
            while ending is None:
                result = environment.step(rng.choice(observation.admissible))
                observation, ending, steps = result.observation, result.ending, steps + 1
    environment.close()
    return steps / (time.process_time() - started)


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_steps_are_thirty_times_as_fast_as_textworlds(
    games_dir: Path, level: str, benchmark: BenchmarkFixture
) -> None:
    from textworld import EnvInfos

    stories = sorted((games_dir / "twc" / level / "train").glob("*.z8"))

    def ours(**settings: str) -> TwcEnvironment:
        return TwcEnvironment(TwcConfig(games_dir=str(games_dir / "twc"), level=level, **settings), Build())

    rates = {
        "textworld, all infos": textworld_rate(stories, [name for name in EnvInfos.__slots__ if name != "extras"]),
        "textworld, the infos of an observation": textworld_rate(stories, WANTED),
        "verify: always": our_rate(ours(verify="always"), 1),
        "after the first episode": benchmark.pedantic(our_rate, args=(ours(), 20), rounds=1),
    }
    benchmark.extra_info.update({name: round(rate) for name, rate in rates.items()})
    assert rates["after the first episode"] > 30 * rates["textworld, the infos of an observation"]
