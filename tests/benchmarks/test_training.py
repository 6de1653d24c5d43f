"""How fast the whole training loop is, against TextWorld's own steps with a random policy, in one run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from test_twc import WANTED, textworld_rate

from cbrcore.assemble import assemble
from cbrcore.interrupt import StopRequest
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.records import RunFolder
from cbrcore.training.trainer import Trainer

RECIPE = Path(__file__).parents[2] / "recipes" / "text_cbr_twc.yaml"
STEPS = 600

pytestmark = pytest.mark.filterwarnings("ignore::jericho.UnsupportedGameWarning")


class Silent:
    def phase(self, title: str, total: int, done: int = 0) -> None: ...
    def advance(self, note: str = "") -> None: ...


def train_until(path: Path, env_steps: int) -> float:
    """Train in `path` (on from its checkpoint) until so many steps are done; steps per CPU second of the loop."""
    overrides = ["run.episodes=null", f"run.env_steps={env_steps}", "training.pretrain.episodes=4"]
    report = load_plugins()
    recipe = load_recipe(RECIPE, overrides=overrides, registry=report.registry)
    parts = assemble(recipe, report.registry, recipe_dir=recipe.directory)
    folder = RunFolder.resume(path) if path.exists() else RunFolder.create("b", path)
    folder.write_text("recipe.yaml", "b")
    trainer = Trainer(
        recipe, parts.environments, parts.reasoner, parts.streams, parts.clock, folder, Silent(), StopRequest()
    )
    started, before = time.process_time(), trainer.progress.env_steps
    progress = trainer.train()
    seconds = time.process_time() - started
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
