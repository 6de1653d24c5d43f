"""The package cbr_llm of tests/third_party, installed by pip: it makes a model, cbr runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from third_party_packages import THIRD_PARTY, Installed, install

TINY = (
    "schema: 1\nname: tiny\nenvironment: {use: cbr_twc/twc, source: generate, level: easy, games_per_split: 2}\n"
    "agent: {use: cbr_random/random}\nrun: {episodes: 1}\n"
)
SMALL = (
    "environment={use: cbr_twc/twc, source: generate, level: easy, games_per_split: 2, max_steps: 15}",
    "text_encoder={use: cbr_text_encoders/untrained}", "context_encoder.heads=4",
    "training.pretrain.episodes=2", "evaluation={passes: 1, random_passes: 1}", "run={episodes: 2}",
)  # fmt: skip


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """With a tiny model in the folder of the recipe, made by the package's own command."""
    site = install(THIRD_PARTY / "cbr_llm", tmp_path_factory.mktemp("llm"))
    (site.package.folder / "small.yaml").write_text(TINY)
    options = ("--plays", "10", "--updates", "3", "--out", site.package.folder / "tiny-model")
    done = site.cbr("tiny-llm", site.package.folder / "small.yaml", *options)
    assert done.returncode == 0, done.stderr
    assert "parameters, trained on 10 random plays of each of 2 training games of cbr_twc/twc" in done.stdout
    return site


@pytest.mark.parametrize("agent", ["llm", "reviser"])
def test_its_recipe_runs_and_repeats_itself(agent: str, llm: Installed, tmp_path: Path):
    agent_settings = f"agent={{use: cbr_llm/{agent}, model: tiny-model}}"
    llm.run_twice("recipe.yaml", *SMALL, agent_settings, folder=tmp_path)
    results = json.loads((tmp_path / "once" / "results.json").read_text())
    assert "frozen; trained on 10 random plays" in results["protocol"]["handicaps"]["language_model"]
    assert not [path for path in tmp_path.rglob("*.safetensors") if path.stat().st_size > 1_000_000]


def test_a_model_that_is_not_here_is_told_without_a_traceback(llm: Installed, tmp_path: Path):
    missing = ("--set", SMALL[0], "--set", "agent.model=nobody/nothing", "--out", tmp_path / "run")
    done = llm.cbr("run", llm.package.folder / "recipe_llm.yaml", *missing, HF_HUB_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "'nobody/nothing' is no folder" in done.stderr
    assert "hf download nobody/nothing" in done.stderr
    assert "Traceback" not in done.stderr
