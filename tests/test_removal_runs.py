"""The folder of any plugin may be deleted: a run that does without it works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from taken_away import PLUGINS, House

EVERY_RUN_NEEDS = ("cbr_border", "cbr_keys")
"""Packages without which nothing is run: one checks what parts give, by terms of the other."""

SMALL = """
schema: 1
name: small
environment: {use: loose/toy}
text_encoder: {use: loose/words}
PARTS
training: {pretrain: null}
evaluation: {passes: 1, random_passes: 1}
recorders: []
run: {episodes: 2}
"""
TRIES = (
    """agent: {use: cbr_text/text, hidden: 8}
context_encoder: {use: cbr_seeded_gat/seeded_gat, heads: 4}
quantizer: {use: cbr_vq/vq, parts: 8, codes: 8}
memory: {threshold: 0.7}""",
    "agent: {use: cbr_random/random}\nlearner: {use: loose/counting}",
)
"""Parts of runs; the first that does without the plugin is tried."""


@pytest.mark.parametrize("plugin", PLUGINS)
def test_without_it_a_run_works(house: House, plugin: str, tmp_path: Path):
    said = []
    for number, parts in enumerate(TRIES):
        recipe = tmp_path / f"small{number}.yaml"
        recipe.write_text(SMALL.replace("PARTS", parts))
        words = ("run", str(recipe), "--plugin", "loose.py", "--out", str(tmp_path / f"run{number}"))
        done = house.run("-m", "cbrcore.cli", *words)
        assert "Traceback" not in done.stderr
        if done.returncode == 0:
            assert (
                json.loads((tmp_path / f"run{number}" / "results.json").read_text())["training"]["env_steps"] > 0
            )
            return
        assert plugin in done.stderr
        said.append(done.stderr)
    assert plugin in EVERY_RUN_NEEDS, said
    assert "pip install --force-reinstall cbr-textrl" in said[-1]
