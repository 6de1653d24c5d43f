"""The sample third-party plugin fulfils the contract, by the suites that its author would use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from plugin_fixtures import Site

from cbrcore.interfaces import Build
from cbrcore.plugins import load_plugins
from cbrcore.testing import AgentSuite, QuantizerSuite


def build_part(kind: str, name: str, build: Build) -> Any:
    """As a recipe would: by its registered name, with its default settings."""
    component = load_plugins(only=["acme_cbr"]).registry.find(kind, name)
    return component.load_factory()(component.load_config()(), build)


@pytest.mark.usefixtures("thirdparty")
class TestSign(QuantizerSuite):
    def make(self, build: Build) -> Any:
        return build_part("quantizer", "acme_cbr/sign", build)

    def test_similarity_is_the_share_of_equal_signs(self, build: Build):
        quantizer = self.make(build)
        contexts = torch.tensor([[1.0, -2.0, 3.0, 0.0], [-1.0, -2.0, 3.0, 4.0]])
        keys = quantizer.keys(contexts)
        assert keys.tolist() == [[1, -1, 1, 1], [-1, -1, 1, 1]]
        assert quantizer.similarity(contexts, keys.flip(0)).tolist() == [0.75, 0.75]


@pytest.mark.usefixtures("thirdparty")
class TestBag(AgentSuite):
    def make(self, build: Build) -> Any:
        return build_part("agent", "acme_cbr/bag", build)


# A command, a figure and a learner of one outsider

OUTSIDER = """
from cbrcore import Figure, Section, hookimpl

@hookimpl
def register_commands(registry):
    registry.add("hello", factory="NAME:hello", summary="Greets.")

@hookimpl
def register_report_sections(registry):
    registry.add("plays", factory="NAME:plays", summary="Plays of each run.")

@hookimpl
def register_learners(registry):
    registry.add("counting", factory="NAME:Counting", summary="Learns nothing, counts steps.")

def hello(name: str = "you"):
    print(f"hello {name}")

def plays(runs):
    values = [{"seed": run.seed, "plays": len(run.metrics)} for run in runs]
    encoding = {"x": {"field": "plays", "type": "quantitative"}, "y": {"field": "seed", "type": "nominal"}}
    chart = {"data": {"values": values}, "mark": "bar", "encoding": encoding}
    return Section("about-plays", "Plays", [Figure("outsiders_plays", "Plays", chart)])

class Counting:
    skipped = 0

    def __init__(self, config, build):
        self.steps = 0

    def begin(self, players, training, streams, clock): ...

    def took_step(self, seat, transition):
        self.steps += 1

    def round_of_steps_done(self): ...

    def pop_losses(self):
        return {}

    def metrics(self):
        return {"steps_counted": self.steps}

    def tensors(self):
        return {}

    def load_tensors(self, tensors): ...
"""
SMOKE = Path(__file__).parents[1] / "recipes" / "smoke" / "text_cbr_generated.yaml"


@pytest.mark.parametrize("installed", [True, False], ids=["installed", "loose"])
def test_an_outsider_adds_a_command_a_figure_and_a_learner(installed: bool, site: Site, cbr, tmp_path: Path):
    source = OUTSIDER.replace("NAME", "outsider")
    loose = tmp_path / "elsewhere" / "outsider.py"
    if installed:
        site.plugin("outsider", source)
    else:
        loose.parent.mkdir()
        loose.write_text(source)
    with_it = [] if installed else ["--plugin", loose]
    assert cbr("hello", "--name", "Ann", *with_it).stdout == "hello Ann\n"

    run = tmp_path / "run"
    settings = ["learner.use=outsider/counting", "training.pretrain.episodes=1", "run.episodes=2"]
    sets = [word for setting in settings for word in ("--set", setting)]
    done = cbr("run", SMOKE, *sets, "--out", run, *with_it)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["steps_counted"] for row in rows] == [row["env_steps"] for row in rows]
    assert {row["loss_policy"] for row in rows} == {None}

    done = cbr("report", run, "--no-decisions", "--figures", tmp_path / "figures", *with_it)
    assert done.returncode == 0, done.stderr
    assert 'id="outsiders_plays"' in (run / "report.html").read_text()
    assert (tmp_path / "figures" / "outsiders_plays.svg").read_text().startswith("<svg")
