"""Each neural agent, with and without CBR, from its shipped recipe to a trained one, on a game of each benchmark.

The budgets are tiny: what is asked is that everything fits, that all losses are finite, and that learning reaches
every parameter.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
import yaml
from toy_run import SilentReporter

from cbrcore.config import Recipe
from cbrcore.console import StopRequest
from cbrcore.plugins import load_plugins
from cbrcore.recipe import dump_recipe, load_recipe
from cbrcore.runs import Work, carry_out
from cbrcore.runs.assemble import Parts, assemble, assemble_learning
from cbrcore.runs.folder import METRICS_FILE, RECIPE_FILE, RunFolder

RECIPES = Path(__file__).parents[1] / "recipes"
AGENTS = ("text", "tpc", "kga2c", "bike")
COMPONENTS = {"kga2c": "scorer"}
"""What an agent's component is called where its plugin has several."""

SMALL = {
    "text_encoder": "{use: cbr_text_encoders/untrained, dim: 24}",
    "training.agent_learning_rate": "0.01",
    "evaluation.splits": "[]",
}
SMALL_CBR = {
    "context_encoder.heads": "4",
    "quantizer.parts": "8",
    "quantizer.codes": "8",
    "memory.threshold": "0.2",  # so that something is reused
    "training.pretrain": "{episodes: 2, epochs: 1, batch_size: 16}",
    "training.retriever_learning_rate": "0.01",
}
ON = {
    "twc": {"environment.max_steps": "40", "run.episodes": "4"},
    "jericho": {
        "environment.game": "detective",
        "environment.max_steps": "10",
        "run.env_steps": "40",
        "run.num_envs": "2",
    },
}


def small_recipe(agent: str, games: str, *, cbr: bool, **more: str) -> Recipe:
    alone = agent == "cbr_only"
    settings = SMALL | ON[games] | (SMALL_CBR if cbr else {}) | ({} if alone else {"agent.hidden": "8"})
    settings |= more
    path = RECIPES / f"{agent}{'_cbr' if cbr and not alone else ''}_{games}.yaml"
    return load(path, settings)


def joint_recipe(agent: str, games: str) -> Recipe:
    """The shipped joint recipe around the agent as it is in its own recipe."""
    inner = yaml.safe_load((RECIPES / f"{agent}_cbr_{games}.yaml").read_text())["agent"] | {"hidden": 8}
    settings = SMALL | ON[games] | SMALL_CBR | {"agent.agent": json.dumps(inner), "agent.width": "8"}
    return load(RECIPES / f"bike_joint_{games}.yaml", settings)


def load(path: Path, settings: dict[str, str]) -> Recipe:
    overrides = [f"{key}={value}" for key, value in settings.items()]
    return load_recipe(path, overrides=overrides, registry=load_plugins().registry)


def train(recipe: Recipe, folder: Path) -> tuple[Parts, dict[str, torch.Tensor]]:
    """The trained parts, and their parameters as they were before."""
    registry = load_plugins().registry
    parts = assemble(recipe, registry)
    before = {name: value.detach().clone() for name, value in parameters(parts).items()}
    records = RunFolder.create(recipe.name, folder)
    records.write_text(RECIPE_FILE, dump_recipe(recipe))
    try:
        work = Work(recipe, records, parts, SilentReporter(), StopRequest())
        carry_out(work, assemble_learning(recipe, registry))
    finally:
        parts.close()
        records.close()
    return parts, before


def parameters(parts: Parts) -> dict[str, torch.nn.Parameter]:
    return {
        f"{part}.{name}": value
        for part, module in parts.reasoner.modules().items()
        for name, value in module.named_parameters()
    }


@pytest.fixture
def _published(games_dir, cache_dir, monkeypatch):
    monkeypatch.setenv("CBR_GAMES", str(games_dir))
    monkeypatch.setenv("CBR_CACHE", str(cache_dir))


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("games", ["twc", "jericho"])
@pytest.mark.parametrize("cbr", [False, True], ids=["plain", "cbr"])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_trains_on_either_benchmark(agent, cbr, games, tmp_path):
    check(small_recipe(agent, games, cbr=cbr), tmp_path, cbr=cbr)


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("games", ["twc", "jericho"])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_trains_jointly_with_the_retriever(agent, games, tmp_path):
    recipe = joint_recipe(agent, games)
    assert recipe.agent.settings.agent.use == f"cbr_{agent}/{COMPONENTS.get(agent, agent)}"
    parts = check(recipe, tmp_path, cbr=True)
    assert type(parts.reasoner.agent.agent).__name__.lower() == f"{COMPONENTS.get(agent, agent)}agent"


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("cbr", [False, True], ids=["plain", "cbr"])
def test_the_decoders_of_kga2c_train_with_their_losses(cbr, tmp_path):
    own = {"memory.threshold": "0.8"} if cbr else {}  # more steps of the agent, with longer last commands
    recipe = small_recipe("kga2c_decoder", "jericho", cbr=cbr, **{"run.env_steps": "100"}, **own)
    check(recipe, tmp_path, cbr=cbr)
    last = json.loads((tmp_path / "run" / METRICS_FILE).read_text().splitlines()[-1])
    assert last["loss_template"] > 0
    assert last["loss_object"] > 0


def check(recipe: Recipe, tmp_path: Path, *, cbr: bool) -> Parts:
    """Train it; everything is finite, everything moved, and cases were used if there are any."""
    parts, before = train(recipe, tmp_path / "run")

    rows = [json.loads(line) for line in (tmp_path / "run" / METRICS_FILE).read_text().splitlines()]
    assert rows[-1]["env_steps"] >= 40
    losses = [
        value for row in rows for name, value in row.items() if name.startswith("loss") and value is not None
    ]
    assert losses
    assert all(map(math.isfinite, losses))

    after = parameters(parts)
    unmoved = [name for name, value in after.items() if value.requires_grad and torch.equal(value, before[name])]
    assert unmoved == []
    if cbr:
        assert any(row["memory_size"] for row in rows)
        assert any(row["reused"] for row in rows)
        assert any(row["loss_retriever"] is not None for row in rows)
    return parts


@pytest.mark.usefixtures("_published")
@pytest.mark.parametrize("games", ["twc", "jericho"])
def test_cases_alone_train_on_either_benchmark(games, tmp_path):
    """CBR-only: a random policy has nothing to learn, the retriever has."""
    parts, before = train(small_recipe("cbr_only", games, cbr=True), tmp_path / "run")
    after = parameters(parts)
    assert [name for name, value in after.items() if torch.equal(value, before[name])] == []
    assert {name.split(".")[0] for name in after} == {"context_encoder", "quantizer"}
    assert len(parts.reasoner.retriever.memory)
