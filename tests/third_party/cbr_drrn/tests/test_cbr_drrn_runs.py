"""Whole runs: it learns more than chance knows, and a resumed run is the run that was never stopped."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
PLAIN, CASES = HERE / "recipe_twc.yaml", HERE / "recipe_cbr_twc.yaml"
GENERATED = ("environment.source=generate", "environment.games_per_split=2", "environment.max_steps=20")
TINY = (*GENERATED, "agent.hidden=8", "agent.embedding=8", "learner.batch=8", "evaluation.passes=1",
        "evaluation.random_passes=1", "run.checkpoint_every=1")  # fmt: skip
SMALL_CASES = ("text_encoder={use: cbr_text_encoders/untrained, dim: 24}", "context_encoder.heads=4",
               "quantizer.parts=8", "quantizer.codes=8", "training.pretrain.episodes=2",
               "training.pretrain.epochs=2")  # fmt: skip


def cbr(*words: object) -> None:
    command = Path(sysconfig.get_path("scripts")) / "cbr"
    done = subprocess.run([command, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(recipe: Path, folder: Path, *settings: str, resume: bool = False) -> Path:
    sets = [word for setting in settings for word in ("--set", setting)]
    cbr("run", recipe, *sets, "--resume" if resume else "--out", folder)
    return folder


@pytest.mark.parametrize(
    ("recipe", "further"),
    [(CASES, SMALL_CASES), (PLAIN, ("learner.target_every=2", "run.num_envs=2"))],
    ids=["with_cases", "with_target_two_games_in_step"],
)
def test_a_resumed_run_ends_with_the_same_bytes(recipe: Path, further: tuple[str, ...], tmp_path: Path):
    settings = (*TINY, *further)
    whole = run(recipe, tmp_path / "whole", *settings, "run.episodes=5")
    parts = run(recipe, tmp_path / "parts", *settings, "run.episodes=2")
    run(recipe, parts, *settings, "run.episodes=5", resume=True)
    for name in ("metrics.jsonl", "results.json"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert any(row["loss_td"] is not None for row in rows)
    assert rows[-1]["replay_steps"] == rows[-1]["env_steps"]
    if recipe is CASES:
        assert any(row["reused"] for row in rows)


@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns_to_tidy_up_in_far_fewer_steps_than_chance(seed: int, tmp_path: Path):
    """Two generated houses, 30 plays of each: steps of the sampled policy and of chance."""
    settings = (*GENERATED, "learner.batch=32", "agent.hidden=32", "agent.embedding=32", "training.update_every=2",
                "evaluation.splits=[train]", "evaluation.modes=[sampled]", "evaluation.passes=10")  # fmt: skip
    folder = run(PLAIN, tmp_path / "run", *settings, "run.episodes=30", f"seed={seed}")
    found = json.loads((folder / "results.json").read_text())["evaluation"]["train"]
    assert found["steps"]["mean"] < 0.5 * found["random"]["steps"]["mean"], found
