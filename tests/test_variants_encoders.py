"""The paper's variants of context encoder and retain policy, each from a shipped recipe to a trained agent.

The budgets are tiny: what is asked is that everything fits, that cases are kept and reused, that all losses are
finite, and that learning reaches every parameter of the encoder.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from test_agents_train import ON, RECIPES, SMALL, SMALL_CBR, parameters, train

from cbrcore.config import Recipe
from cbrcore.cycle.retriever import Retriever
from cbrcore.plugins import load_plugins
from cbrcore.recipe import load_recipe
from cbrcore.runs.folder import METRICS_FILE

ENCODERS = {
    "entity": "{use: cbr_entity/entity}",
    "entity_mean": "{use: cbr_entity/entity, entities: mean, dim: 16}",
    "mptr": "{use: cbr_mptr/mptr}",
    "mptr_recent": "{use: cbr_mptr/mptr, prefer: recent, history: 1, dim: 16}",
}
POLICIES = {
    "last_k": "{use: cbr_retain/last_k, k: 3}",
    "needed": "{use: cbr_retain/needed, k: 5}",
    "rewarded_only": "{use: cbr_retain/rewarded_only}",
    "td_error": "{use: cbr_retain/td_error}",
}


def variant(games: str, **parts: str) -> Recipe:
    """Text + CBR, small, with these parts instead of the recipe's."""
    settings = SMALL | ON[games] | SMALL_CBR | {"agent.hidden": "8"} | parts
    if "context_encoder" in parts:
        del settings["context_encoder.heads"]
    overrides = [f"{key}={value}" for key, value in settings.items()]
    return load_recipe(RECIPES / f"text_cbr_{games}.yaml", overrides=overrides, registry=load_plugins().registry)


def check(recipe: Recipe, folder: Path) -> Retriever:
    """Train, see that it did what it is for, and return the trained retriever."""
    parts, before = train(recipe, folder)
    rows = [json.loads(line) for line in (folder / METRICS_FILE).read_text().splitlines()]
    losses = [
        value for row in rows for name, value in row.items() if name.startswith("loss") and value is not None
    ]
    assert losses
    assert all(map(math.isfinite, losses))
    assert len(parts.reasoner.retriever.memory)
    assert rows[-1]["memory_size"]
    assert any(row["reused"] for row in rows)
    encoder = {name: value for name, value in parameters(parts).items() if name.startswith("context_encoder.")}
    assert encoder
    assert [name for name, value in encoder.items() if torch.equal(value, before[name])] == []
    return parts.reasoner.retriever


@pytest.fixture(autouse=True)
def _published(games_dir, cache_dir, monkeypatch):
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_context_encoder_trains_on_twc(encoder, tmp_path):
    check(variant("twc", context_encoder=ENCODERS[encoder]), tmp_path / "run")


def test_the_text_based_retriever_trains_on_jericho(tmp_path):
    check(variant("jericho", context_encoder=ENCODERS["mptr"]), tmp_path / "run")


@pytest.mark.parametrize(
    ("policy", "keeps_unrewarded"),
    [("last_k", True), ("needed", True), ("rewarded_only", False), ("td_error", True)],
)
def test_every_retain_policy_keeps_what_it_is_for(policy, keeps_unrewarded, tmp_path):
    retriever = check(variant("twc", retain_policy=POLICIES[policy]), tmp_path / "run")
    rewards = {case.provenance.reward > 0 for case in retriever.memory.cases}
    assert rewards == ({True, False} if keeps_unrewarded else {True})
