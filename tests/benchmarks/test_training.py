"""How fast the whole training loop is, against TextWorld's own steps with a random policy, in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import cbr_border.parts
from cbr_bench.training import WANTED, textworld_rate
from cbrcore.console import StopRequest
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs import Work
from cbrcore.runs.assemble import assemble, assemble_learning
from cbrcore.runs.folder import Recorders, RunFolder
from cbrcore.runs.trainer import Trainer

RECIPE = Path(__file__).parents[2] / "recipes" / "text_cbr_twc.yaml"
JERICHO = RECIPE.with_name("bike_cbr_jericho.yaml")
STEPS = 600
MOST_FOR_THE_BORDER = 0.05
"""As a share of the time of training."""
LEAST_GAIN = 2
"""How many times as fast training on Zork I is when all valid actions are in the cache, at least."""

pytestmark = pytest.mark.filterwarnings("ignore::jericho.UnsupportedGameWarning")


class Silent:
    def phase(self, title: str, total: int, done: int = 0) -> None: ...
    def advance(self, note: str = "") -> None: ...


def train_until(
    path: Path,
    env_steps: int,
    recipe: Path = RECIPE,
    *settings: str,
    timer: Callable[[], float] = time.process_time,
) -> float:
    """Train in `path` (on from its checkpoint) until so many steps are done; steps per second of the loop.

    Args:
        timer: CPU seconds of this process by default; where engines work in other processes take a real clock.
    """
    overrides = ["run.episodes=null", f"run.env_steps={env_steps}", "training.pretrain.episodes=4", *settings]
    report = load_plugins()
    checked = load_recipe(recipe, overrides=overrides, registry=report.registry)
    parts = assemble(checked, report.registry)
    folder = RunFolder.resume(path) if path.exists() else RunFolder.create("b", path)
    folder.write_text("recipe.yaml", "b")
    learning = assemble_learning(checked, report.registry)
    work = Work(checked, folder, parts, Silent(), StopRequest())
    trainer = Trainer(work, learning, Recorders(()))
    started, before = timer(), trainer.progress.env_steps
    progress = trainer.train()
    seconds = timer() - started
    parts.close()
    folder.close()
    return (progress.env_steps - before) / seconds


def test_training_steps_at_60_percent_of_textworlds_own_rate(
    games_dir: Path, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: BenchmarkFixture
) -> None:
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    train_until(tmp_path / "run", 1)  # pretraining, encoded texts
    bare = textworld_rate(sorted((games_dir / "twc" / "easy" / "train").glob("*.z8")), WANTED)
    ours = benchmark.pedantic(train_until, args=(tmp_path / "run", STEPS), rounds=1)
    benchmark.extra_info.update({"textworld, random policy": round(bare), "training text_cbr_twc": round(ours)})
    assert ours > 0.6 * bare


def test_jericho_trains_many_times_as_fast_from_the_cache(
    games_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: BenchmarkFixture
) -> None:
    """BiKE + CBR on Zork I: the same steps with a search for the valid actions in each state (it fills the cache),
    and with none."""
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(tmp_path / "cache"))

    def rate(name: str) -> float:
        path = tmp_path / name
        full = "environment.search=full", "run.num_envs=4"  # a learned one asks no cache
        train_until(path, 1, JERICHO, *full)  # pretraining, encoded texts, the first episodes
        return train_until(path, 500, JERICHO, *full, timer=time.perf_counter)

    searching = rate("searching")
    warm = benchmark.pedantic(rate, args=("warm",), rounds=1)
    benchmark.extra_info.update({"steps/s, searching": round(searching, 1), "steps/s, warm": round(warm, 1)})
    assert warm > LEAST_GAIN * searching


def test_the_border_around_the_parts_costs_little(
    games_dir: Path, cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: BenchmarkFixture
) -> None:
    """Its share of a training run: of the calls of each guarded method the median time outside the author's own.

    The difference of two runs would say the same, were it not smaller than what another program on the machine
    adds to either.
    """
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    checked = cbr_border.parts._checked
    spent: dict[object, list[float]] = {}
    """What each guarded method of each part took besides, seconds per call."""

    def timing(border: Any, name: str, find: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
        def finding(part: Any) -> Callable[..., Any]:
            call = find(part)

            def own(*args: Any, **kwargs: Any) -> Any:
                started = time.perf_counter()
                try:
                    return call(*args, **kwargs)
                finally:
                    within.append(time.perf_counter() - started)

            return own

        def timed(part: Any, *args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(part, *args, **kwargs)
            finally:
                calls.append(time.perf_counter() - started - within.pop())

        method, calls, within = checked(border, name, finding), spent.setdefault((border, name), []), list[float]()
        return timed

    monkeypatch.setattr(cbr_border.parts, "_checked", timing)
    train_until(tmp_path / "run", 1)  # pretraining, encoded texts
    spent.clear()
    rate = benchmark.pedantic(train_until, (tmp_path / "run", STEPS), {"timer": time.perf_counter}, rounds=1)
    per_step = sum(len(calls) * statistics.median(calls) for calls in spent.values() if calls) / (STEPS - 1)
    benchmark.extra_info["share of the border"] = round(per_step * rate, 4)
    assert sum(map(len, spent.values())) > 10 * STEPS  # the border was there
    assert 0 < per_step * rate < MOST_FOR_THE_BORDER
