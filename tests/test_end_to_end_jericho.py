"""The command line on Jericho: from recipe to results, stopped and resumed, with an engine that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_folders import rows, same
from toy_run import Experiment, SilentReporter

from cbr_jericho.supervisor import Supervisor
from cbrcore.console import StopRequest
from cbrcore.plugins import load_plugins
from cbrcore.recipe import dump_recipe, load_recipe
from cbrcore.runs.assemble import Parts, assemble
from cbrcore.runs.folder import RECIPE_FILE, RunFolder

RECIPES = Path(__file__).parents[1] / "recipes"
SMOKE = RECIPES / "smoke" / "text_cbr_jericho.yaml"
EXPLORER = RECIPES / "smoke" / "explorer_generated.yaml"
KINDS = {
    "world": [SMOKE],
    "exact, a way that is known is not played": [SMOKE, "--set", "environment.cache_key=state"],
    "view": [SMOKE, "--set", "environment.cache_key=view"],
    "explorer": [EXPLORER, "--set", "run.env_steps=300", "--set", "run.checkpoint_every=1"],
}
"""What a run keeps besides weights and cases: remembered valid actions, known ways, an archive of places."""

Cbr = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def finished(cbr: Cbr, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of a kind that was never stopped; what it printed lies beside it."""

    @cache
    def folder_of(kind: str) -> Path:
        folder = tmp_path_factory.mktemp("finished") / "run"
        done = cbr("run", *KINDS[kind], "--out", folder)
        assert done.returncode == 0, done.stderr
        (folder.parent / "stdout").write_text(done.stdout)
        return folder

    return folder_of


@pytest.fixture(scope="module")
def whole(finished: Callable[[str], Path]) -> Path:
    """One finished run of the smoke recipe."""
    return finished("world")


def test_the_tables_tell_raw_scores_beside_the_initial_one(whole):
    training, found = (whole.parent / "stdout").read_text().split("\n\n")[:2]
    assert [cell.strip() for cell in training.splitlines()[0].split("|")[1:-1]] == [
        "training on", "initial", f"last {len(rows(whole))} episodes", "best", "maximum",
    ]  # fmt: skip
    values = [cell.strip() for cell in training.splitlines()[2].split("|")[1:-1]]
    scores = [row["score"] for row in rows(whole)]
    assert values[1:] == ["0", f"{sum(scores) / len(scores):.1f}", f"{max(scores):.0f}", "6"]
    assert "TRAIN score" in found
    assert "uniform random" in found


def test_results_hold_the_protocol(whole):
    results = json.loads((whole / "results.json").read_text())
    scores = [row["score"] for row in rows(whole)]
    assert results["training"]["avg_score_last_100"] == pytest.approx(sum(scores) / len(scores))
    assert results["training"]["best_score"] == max(scores)
    assert sum(results["training"]["endings"].values()) == results["training"]["episodes"] == len(scores)
    protocol = results["protocol"]
    assert {"valid_actions", "state_graph", "chance", "look_and_inventory"} <= set(protocol["handicaps"])
    (facts,) = protocol["games"]["train"].values()
    assert {"md5", "jericho", "seed", "initial_score", "max_score", "tagger"} <= set(facts)
    assert all(row["steps"] <= 8 for row in rows(whole))


@pytest.mark.parametrize(
    ("kind", "number"), [("world", signal.SIGINT), *((kind, signal.SIGKILL) for kind in KINDS)]
)
def test_a_stopped_run_resumes_to_the_same_bytes(cbr, finished, tmp_path, cache_dir, kind, number):
    whole, folder = finished(kind), tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "cbrcore.cli", "run", *map(str, KINDS[kind]), "--out", str(folder)],
        env={**os.environ, "CBR_CACHE": str(cache_dir)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not any((folder / "checkpoints").glob("0*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    assert process.wait(timeout=120) == (130 if number == signal.SIGINT else -number)
    assert not (folder / "results.json").exists()
    done = cbr("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    same(whole, folder)


def smoke_run(path: Path, *overrides: str) -> tuple[Parts, Callable[[], dict[str, Any]]]:
    """The parts of a run of the smoke recipe in this process, and what runs it."""
    registry = load_plugins().registry
    recipe = load_recipe(SMOKE, overrides=overrides, registry=registry)
    parts = assemble(recipe, registry)

    def whole_run() -> dict[str, Any]:
        folder = RunFolder.create(recipe.name, path)
        folder.write_text(RECIPE_FILE, dump_recipe(recipe))
        try:
            return Experiment(recipe, parts, folder, SilentReporter(), StopRequest()).run()
        finally:
            parts.close()
            folder.close()

    return parts, whole_run


def test_no_seed_of_an_evaluation_was_trained_on(tmp_path, cache_dir, monkeypatch):
    """Protocol P2: each episode has a seed of its own."""
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    begin, begun = Supervisor.begin, []

    def note(self, effort: str, seed: int | None = None):
        begun.append(seed)
        return begin(self, effort, seed)

    monkeypatch.setattr(Supervisor, "begin", note)
    overrides = ("environment.seed=episode", "run.env_steps=80", "evaluation.passes=10")
    _, whole_run = smoke_run(tmp_path / "run", *overrides)
    results = whole_run()
    plays = results["evaluation"]["train"]["endings"].values(), results["evaluation"]["train"]["random"]["passes"]
    count = sum(plays[0]) + plays[1]
    evaluated, trained = begun[-count:], begun[:-count]
    assert len(set(evaluated)) == 10  # the random policy has the seeds of the agent's first plays
    assert len(set(trained)) == len(trained) > results["training"]["episodes"]  # and those of pretraining
    assert not set(trained) & set(evaluated)
    assert None not in begun
    assert results["protocol"]["handicaps"]["protocol"].startswith("P2")


def test_an_engine_that_is_killed_in_the_middle_of_an_episode_costs_that_episode_and_is_counted(
    tmp_path, cache_dir, monkeypatch, caplog
):
    """The process is killed from outside, as the system does when memory runs out."""
    from cbrcore.runs.trainer import LearningActor

    monkeypatch.setenv("CBR_CACHE", str(cache_dir))
    parts, whole_run = smoke_run(tmp_path / "run", "run.env_steps=80")
    observe = LearningActor.observe

    def kill_once(self, *step) -> None:
        observe(self, *step)
        if self._progress.env_steps == 21:
            os.kill(parts.environments[0]._play.supervisor._worker.pid, signal.SIGKILL)

    monkeypatch.setattr(LearningActor, "observe", kill_once)
    results = whole_run()
    endings = [row["ending"] for row in rows(tmp_path / "run")]
    assert endings.count("engine_error") == 1
    assert results["training"]["endings"]["engine_error"] == 1
    assert results["training"]["env_steps"] >= 80
    assert "was ended by SIGKILL" in caplog.text
    assert "Last commands:" in caplog.text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"game": "zork9"}, "zork3"),
        ({"rom_dir": "/none"}, "/none"),
        ({"game": "empty.z5"}, "empty"),
        ({"game": "page.z5"}, "HTML"),
        ({"game": "folder.z5"}, "folder"),
        ({"seed": 0}, "seed"),
        ({"tagger": "guess"}, "dictionary"),
    ],
)
def test_wrong_input_ends_with_one_clear_error(cbr, tmp_path, settings, says):
    (tmp_path / "empty.z5").write_bytes(b"")
    (tmp_path / "page.z5").write_text("<!DOCTYPE html><html>404</html>" * 100)
    (tmp_path / "folder.z5").mkdir()
    recipe = yaml.safe_load(SMOKE.read_text())
    recipe["environment"] = {"use": "cbr_jericho/jericho", "game": "zork1"} | settings
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    done = cbr("run", tmp_path / "recipe.yaml", "--out", tmp_path / "run", env={"CBR_GAMES": str(tmp_path)})
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_zork_trains_through_the_recipe_of_the_paper(cbr, games_dir, tmp_path):
    """`bike_cbr_jericho.yaml` itself, with a small budget and a small text encoder."""
    settings = {
        "run.env_steps": 24,
        "environment.max_steps": 8,
        "training.pretrain.episodes": 2,
        "evaluation.splits": "[]",
        "text_encoder": "{use: cbr_text_encoders/untrained, dim: 96}",
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = cbr("run", RECIPES / "bike_cbr_jericho.yaml", *sets, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "| zork1 " in done.stdout
    assert "| 350 " in done.stdout
    assert {row["game"] for row in rows(tmp_path / "run")} == {"zork1"}


def test_the_games_are_listed_and_warmed(cbr, games_dir):
    listed = cbr("games", "list")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("present") == 33
    warmed = cbr("games", "warm", "zork1", "--steps", "3")
    assert warmed.returncode == 0, warmed.stderr
    assert warmed.stdout.startswith("zork1: 4 states, ")
    again = cbr("games", "warm", "zork1", "--steps", "3")
    assert "4 states, 0 of them new" in again.stdout
    nothing = cbr("games", "warm", "generated")
    assert (nothing.returncode, "no walkthrough" in nothing.stderr) == (2, True)
