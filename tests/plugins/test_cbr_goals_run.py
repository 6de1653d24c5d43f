"""Whole runs with goal cases: they learn, a resumed run has the same bytes, and nothing is told that is not so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import same

LONGER = ("--set", "run.episodes=6", "--set", "reuse_policy.random_plays=6", "--set", "learner.every=6")
RECIPE = Path(__file__).parents[2] / "recipes" / "smoke" / "goals_generated.yaml"


@pytest.fixture(scope="module")
def straight(here, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("goals") / "run"
    done = here("run", RECIPE, *LONGER, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


def test_a_resumed_run_ends_with_the_same_bytes(here, straight, tmp_path):
    """Interrupted in the random plays, and between two fits."""
    run = tmp_path / "run"
    assert here("run", RECIPE, *LONGER, "--set", "run.episodes=1", "--out", run).returncode == 0
    for episodes in (3, 6):
        done = here("run", "--resume", run, "--set", f"run.episodes={episodes}")
        assert done.returncode == 0, done.stderr
    same(straight, run)


def test_training_games_are_played_at_the_optimum(straight):
    rows = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()]
    first, last = rows[:6], rows[-6:]
    assert sum(row["steps"] for row in last) < 0.5 * sum(row["steps"] for row in first)
    assert all(row["norm_score"] == 1 for row in last)
    assert all(row["reused"] == 0 for row in first), "the agent's own plays"


@pytest.mark.parametrize("views", [("[full]", "[full, head]"), ("[head, full]", "[full]")])
def test_a_kernel_with_other_views_than_the_encoder_is_refused(here, tmp_path, views):
    """Of the same number, or in another order: the columns would be taken for one another."""
    sets = [f"quantizer.{slot}={named}" for slot, named in zip(("first", "second"), views, strict=True)]
    done = here("run", RECIPE, *(word for each in sets for word in ("--set", each)), "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "are not those of the context encoder" in done.stderr
    assert "quantizer: {use: cbr_goals/kernel, first: [full, head], second: [full]}" in done.stderr


def test_results_name_every_advantage_and_the_cross_validated_number(straight):
    results = json.loads((straight / "results.json").read_text())
    assert results["protocol"]["handicaps"]["places"] is True
    assert results["protocol"]["handicaps"]["episode_memory"] == ["solved goals", "failed goals"]
    found = results["training"]["facts"]["memory"]
    assert found["wrong_tries"] >= 0
    assert {"w0", "w1", "w2", "a", "b", "theta.first.full", "theta.first.head", "theta.second.full"} <= set(found)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_unseen_games_take_less_than_half_of_what_chance_takes(here, tmp_path, seed):
    sets = [
        f"seed={seed}",
        "run.episodes=8",
        "reuse_policy.random_plays=10",
        "environment.games_per_split=5",
        "environment.max_steps=50",
        "recorders=[]",
    ]
    words = [word for item in sets for word in ("--set", item)]
    done = here("run", RECIPE, *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())["evaluation"]["in"]
    assert results["steps"]["mean"] < 0.5 * results["random"]["steps"]["mean"]


def test_a_decision_towards_a_goal_is_told(here, straight):
    done = here("play", straight)
    assert done.returncode == 0, done.stderr
    assert "says that 'put " in done.stdout or "says that 'insert " in done.stdout
    assert "out of reach now" in done.stdout


def test_learned_effects_are_listed(here, straight):
    done = here("cases", straight, "--effects", "--json")
    assert done.returncode == 0, done.stderr
    found = [tuple(row.values()) for row in json.loads(done.stdout)]
    takes = [row for row in found if row[0].startswith("take {}") and row[2].startswith(("put {}", "insert {}"))]
    assert takes
    assert all((slot, there) == (0, 0) for _, slot, _, there, *_ in takes), "the object, never the place"
    assert all(0 < times <= executed for *_, times, executed in found)
    table = here("cases", straight, "--effects").stdout.splitlines()
    assert table[0].split() == ["template", "with", "makes", "admissible", "as", "times", "of"]
    assert len(table) == len(found) + 1


def test_a_run_that_learns_no_effects_says_so(here, tmp_path):
    plain = RECIPE.with_name("text_cbr_generated.yaml")
    assert here("run", plain, "--set", "run.episodes=1", "--out", tmp_path / "run").returncode == 0
    done = here("cases", tmp_path / "run", "--effects")
    assert done.returncode == 2
    assert "has learned no effects" in done.stderr
