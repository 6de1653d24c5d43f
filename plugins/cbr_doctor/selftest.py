"""The self-test of ``cbr doctor``: a tiny run and a step of Jericho's engine, in a temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cbrcore.errors import RunFailed
from cbrcore.interfaces import Build
from cbrcore.registry import Registry

LIMIT_S = 100
"""For the tiny run; with the engine's own limits the whole takes two minutes at most."""

RECIPE = """\
# Seconds: every part of a Text + CBR run once, on generated games, with a tiny untrained text encoder.
schema: 1
name: smoke_text_cbr_generated
seed: 0

environment: {use: cbr_twc/twc, source: generate, level: easy, games_per_split: 2, max_steps: 20}
text_encoder: {use: cbr_text_encoders/untrained, dim: 24}
context_encoder: {use: cbr_seeded_gat/seeded_gat, heads: 4}
quantizer: {use: cbr_vq/vq, parts: 8, codes: 8}
memory: {threshold: 0.7}
retain_policy: {use: cbr_retain/last_k}
agent: {use: cbr_text/text, unit: sentence, hidden: 8}

training:
  agent_learning_rate: 1e-3
  pretrain: {episodes: 2, epochs: 2, batch_size: 16}
evaluation: {passes: 1}
run: {episodes: 3, checkpoint_every: 2}
"""
"""recipes/smoke/text_cbr_generated.yaml, which an installed package does not hold."""


def tiny_run(limit_s: float = LIMIT_S) -> None:
    """Generate games, pretrain, train and evaluate, in a process of its own with an empty cache.

    Raises:
        RunFailed: the run failed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
        recipe = Path(folder) / "recipe.yaml"
        recipe.write_text(RECIPE, encoding="utf-8")
        environment = {**os.environ, "CBR_CACHE": folder}
        for name in ("CBR_LOAD_PLUGINS", "CBR_STRICT_PLUGINS"):
            environment.pop(name, None)  # other plugins are checked elsewhere
        words = [sys.executable, "-m", "cbrcore.cli", "run", str(recipe), "--out", str(Path(folder) / "run")]
        try:
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"the tiny run took more than {limit_s:g} s") from error
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise RunFailed(f"the tiny run ended with exit code {done.returncode}: {said}")


def engine_step(registry: Registry) -> int:
    """Start Jericho's engine on the generated story and take one step; how many actions were valid.

    Raises:
        RunFailed: the engine ended the episode.
        CbrError: the plugin is not there, or the story cannot be made.
    """
    component = registry.find("environment", "cbr_jericho/jericho")
    config = component.load_config()(game="generated", step_timeout_s=5, valid_timeout_s=5, max_faults=1)
    with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
        environment = component.load_factory()(config, Build(cache_dir=Path(folder)))
        try:
            (game,) = environment.games("train")
            seen = environment.reset(game, 1)
            result = environment.step(seen.admissible[0])
        finally:
            environment.close()
    if result.ending is not None:
        raise RunFailed(f"the episode ended after one step: {result.ending}")
    return len(seen.admissible)
