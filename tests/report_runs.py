"""Run folders for the tests of the report, written by hand: what a run leaves behind, without running it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from cbr_sweep.axes import SweepRun, expand
from cbrcore.plugins import load_plugins
from cbrcore.recipe import dump_recipe, load_recipe

TABLES = Path(__file__).parents[1] / "recipes" / "tables"


@cache
def plugins():
    return load_plugins()


@cache
def runs_of(name: str) -> list[SweepRun]:
    return expand(load_recipe(TABLES / name, registry=plugins().registry))


@cache
def recipe_text(name: str, run_id: str, *changes: str) -> str:
    """The resolved recipe of a run of a sweep."""
    (run,) = (each for each in runs_of(name) if each.id == run_id)
    return dump_recipe(
        load_recipe(TABLES / name, overrides=[*run.overrides, *changes], registry=plugins().registry)
    )


def played(steps: float, score: float, *, reused: int = 30, greedy: bool = True) -> dict[str, Any]:
    """What results.json holds of a split: 100 steps in ten plays; the random row is always the same."""
    found = {
        "steps": {"mean": steps, "std": 0.5},
        "norm_score": {"mean": score, "std": 0.1},
        "score": {"mean": score, "std": 0.1},
        "endings": {"won": 10},
        "total_steps": 100,
        "reused": reused,
        "reuse_rewarded": reused // 2,
        "reuse_agent_same": reused // 10,
        "games": {},
    }
    if not greedy:
        return found
    return found | {
        "mode": "sampled",
        "greedy": played(steps + 10, score / 2, greedy=False),
        "random": played(40.0, 0.5, reused=0, greedy=False),
        "optimal_steps": 2.4,
    }


def results(seed: int, evaluation: dict[str, Any], *, game: dict[str, Any] | None = None) -> dict[str, Any]:
    facts = {"max_score": 1, "optimal_steps": 2} if game is None else game
    return {
        "schema": 1,
        "name": "by hand",
        "evaluation": evaluation,
        "training": {
            "avg_score_last_100": 10.0 + seed,
            "best_score": 20.0 + seed,
        },
        "protocol": {
            "seed": seed,
            "handicaps": {"commands": "full admissible list"},
            "retry_failed": False,
            "win_bonus": 1.0,
            "evaluation_passes": 5,
            "games": {"train": {"one": facts}},
        },
    }


def rows(seed: int, *, memory: bool = True) -> list[dict[str, Any]]:
    """Twenty episodes of ten steps, better and better."""
    return [
        {
            "episode": number,
            "env_steps": 10 * number,
            "game": "one",
            "score": number / 20,
            "norm_score": number / 20,
            "steps": 50 - 2 * number,
            "memory_size": number // 2 + seed if memory else 0,
            **({"code_usage": 0.25 + seed / 100} if memory else {}),
        }
        for number in range(1, 21)
    ]


def write_run(
    folder: Path, recipe: str, found: dict[str, Any], metrics: list[dict[str, Any]] | None = None
) -> Path:
    """A finished run's folder."""
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(recipe)
    (folder / "results.json").write_text(json.dumps(found))
    (folder / "versions.json").write_text(
        json.dumps({"python": "3.11.7", "packages": {"torch": "2.13.0", "numpy": None}, "device": "cpu"})
    )
    lines = rows(found["protocol"]["seed"]) if metrics is None else metrics
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    return folder


VARIANTS = ["bike", "text", "tpc", "kga2c", "cbr_only", "text_cbr", "tpc_cbr", "kga2c_cbr", "bike_cbr"]
LEVELS = ["easy", "medium", "hard"]


def number_of(variant: str, level: str, seed: int) -> tuple[float, float]:
    """(steps IN, score IN) of a run of `twc_sweep`; OUT has three steps more and 0.1 less."""
    steps = 10.0 + VARIANTS.index(variant) + 10 * LEVELS.index(level) + seed
    return steps, 0.9 - 0.1 * LEVELS.index(level) - 0.02 * seed


def twc_sweep(folder: Path, *, sweep_file: bool = True, seeds: int = 2) -> Path:
    """All cells of recipes/tables/twc.yaml, `seeds` runs of each."""
    listed = []
    for variant in VARIANTS:
        for level in LEVELS:
            for seed in range(seeds):
                run_id = f"{variant}-level={level}-seed={seed}"
                steps, score = number_of(variant, level, seed)
                evaluation = {"in": played(steps, score), "out": played(steps + 3, score - 0.1)}
                memory = "cbr" in variant
                write_run(
                    folder / run_id,
                    recipe_text("twc.yaml", run_id),
                    results(seed, evaluation),
                    rows(seed, memory=memory),
                )
                choices = {"variants": variant, "environment.level": level, "seed": seed}
                listed.append({"id": run_id, "choices": choices, "settings": {}})
    if sweep_file:
        data = {"schema": 1, "name": "twc", "recipe": "twc.yaml", "runs": listed}
        (folder / "sweep.json").write_text(json.dumps(data))
    return folder


SMOKE = Path(__file__).parents[1] / "recipes" / "smoke" / "text_cbr_generated.yaml"
DECIDES = (
    "run.episodes=6",
    "evaluation={splits: [train], passes: 1, random_passes: 1, modes: [sampled]}",
    "training.pretrain.episodes=0",
    "memory.threshold=0.5",
    "reuse_policy.retry_failed=false",
)
"""Trained until it reuses cases on the games of the training, and is refused some."""


def trained_run(here: Callable[..., Any], folder: Path) -> Path:
    """A run that was really trained: seconds."""
    done = here("run", SMOKE, *(word for each in DECIDES for word in ("--set", each)), "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder
