"""Each quantizer in a whole run, from the shipped recipe to a trained retriever, on a tiny budget."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from test_agents_train import ON, RECIPES, SMALL, SMALL_CBR, parameters, train

from cbrcore.config import Recipe
from cbrcore.interfaces import Build
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs.folder import METRICS_FILE

QUANTIZERS = {
    "cbr_continuous/continuous": "memory.capacity=4",
    "cbr_projection/rp": "quantizer.size=16",
    "cbr_projection/srp": "quantizer.size=16",
    "cbr_lsh/lsh": "quantizer.bits=4",
    "cbr_fsq/fsq": "quantizer.parts=8",
}

MEDIUM = {
    "environment.level": "medium",  # three objects a game: pairs so varied that every parameter has a gradient
    "run.episodes": "2",
    "training.pretrain": "{episodes: 2, epochs: 2, batch_size: 16}",
}


def recipe_with(quantizer: str) -> Recipe:
    settings = SMALL | ON["twc"] | SMALL_CBR | {"agent.hidden": "8", "quantizer": f"{{use: {quantizer}}}"}
    del settings["quantizer.parts"], settings["quantizer.codes"]
    settings |= MEDIUM
    overrides = [f"{key}={value}" for key, value in settings.items()]
    return load_recipe(
        RECIPES / "text_cbr_twc.yaml",
        overrides=[*overrides, QUANTIZERS[quantizer]],
        registry=load_plugins().registry,
    )


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, "cbr_vq/vq"])
def test_what_a_quantizer_holds_is_on_the_device_of_the_run(quantizer: str):
    """On "meta", a device that every machine has."""
    component = load_plugins().registry.find("quantizer", quantizer)
    made = component.load_factory()(component.load_config()(), Build(context_dim=32, device="meta"))
    held = [*made.state_dict().values(), *made.parameters(), *made.buffers()]
    assert {value.device.type for value in held} <= {"meta"}


@pytest.fixture
def _published(games_dir, cache_dir, monkeypatch):
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_a_retriever_trains_with_every_quantizer(quantizer: str, tmp_path: Path):
    parts, before = train(recipe_with(quantizer), tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / METRICS_FILE).read_text().splitlines()]
    losses = [
        value for row in rows for name, value in row.items() if name.startswith("loss") and value is not None
    ]
    assert losses
    assert all(map(math.isfinite, losses))
    assert any(row["loss_retriever"] is not None for row in rows)
    assert any(row["reused"] for row in rows)
    memory = parts.reasoner.retriever.memory
    assert 0 < len(memory) <= (memory.capacity or math.inf)
    after = parameters(parts)
    assert [name for name, value in after.items() if torch.equal(value, before[name])] == []
    assert any(name.startswith("quantizer.") for name in after) == (quantizer == "cbr_fsq/fsq")
