"""The memory of continuous contexts grows with every reward, that of quantized ones stays below [P Fig. 5]."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import rows
from test_agents_train import train

from cbr_sweep.axes import expand
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "tables" / "memory_growth.yaml"
PASSES = 5
SMALL = ["evaluation.splits=[]", f"run.episodes={PASSES}", "training.pretrain={episodes: 3, epochs: 2}",
         "agent={use: cbr_random/random}"]  # fmt: skip


@pytest.mark.learning
def test_continuous_keys_fill_the_memory_and_codes_do_not(games_dir, cache_dir, tmp_path, monkeypatch):
    """The recipe of the figure with a small budget, and a random policy where no case fits."""
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    registry = load_plugins().registry
    sizes, rewards = {}, {}
    for run in expand(load_recipe(RECIPE, overrides=SMALL, registry=registry)):
        variant = run.choices["variants"]
        train(load_recipe(RECIPE, overrides=[*SMALL, *run.overrides], registry=registry), tmp_path / variant)
        episodes = rows(tmp_path / variant)
        sizes[variant] = [row["memory_size"] for row in episodes]
        rewards[variant] = sum(row["score"] for row in episodes)
    continuous, codes = sizes["bike_cbr_continuous"], sizes["bike_cbr"]
    assert continuous[-1] > 1.5 * rewards["bike_cbr_continuous"]  # k = 2 actions a reward, few known
    assert codes[-1] < 0.5 * continuous[-1]  # 135 and 321 here; machines differ in a few
    half = len(codes) // 2
    assert codes[-1] - codes[half] < 0.5 * (continuous[-1] - continuous[half])  # and no catching up
