"""TPC: the contract of agents, and what its commonsense graph does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graph_agents import LATER, SHIRT, GraphAgentSuite

import cbr_tpc
from cbr_tpc.agent import TpcAgent
from cbr_tpc.config import TpcConfig
from cbrcore import StateGraph
from cbrcore.interfaces import AgentInput, Build
from cbrcore.registry import Registrar
from cbrcore.testing import WordHashEncoder

SMALL = {"hidden": 8, "unit": "sentence", "commonsense": {"source": "embedded"}}


def tpc(build: Build, **settings: Any) -> TpcAgent:
    torch.manual_seed(0)
    return TpcAgent(TpcConfig(**{**SMALL, **settings}), build)


class TestTpc(GraphAgentSuite):
    def make(self, build: Build) -> TpcAgent:
        return tpc(build)


class TestTpcWithoutCommonsense(GraphAgentSuite):
    idle = ("world.read_graph", "score.meet", "score.refine.query", "score.refine.key", "score.ask.ask")
    """With one node there is nothing to choose between."""

    def make(self, build: Build) -> TpcAgent:
        return tpc(build, commonsense={"source": "none"})


@pytest.fixture
def build() -> Build:
    return Build(text_encoder=WordHashEncoder())


def test_the_commonsense_graph_grows_with_the_episode_and_starts_anew(build: Build):
    agent = tpc(build)
    first = agent.policy([AgentInput(SHIRT, agent.initial_state())])[0].state
    second = agent.policy([AgentInput(LATER, first)])[0].state
    assert ("shirt", "relatedto", "wardrobe") in first.world.triples
    assert set(second.world.nodes) - set(first.world.nodes) == {"sock"}
    assert agent.initial_state().world == StateGraph(())


def test_commonsense_changes_what_it_does(build: Build):
    informed, ignorant = tpc(build), tpc(build, commonsense={"source": "none"})
    ignorant.load_state_dict(informed.state_dict())
    with_graph, without = (a.policy([AgentInput(SHIRT, a.initial_state())])[0] for a in (informed, ignorant))
    assert not torch.allclose(with_graph.logits, without.logits)
    torch.testing.assert_close(with_graph.value, without.value)  # the critic reads the text's state


def test_it_says_where_its_commonsense_comes_from(build: Build):
    assert "cbr_commonsense" in tpc(build).handicaps["commonsense"]
    assert tpc(build, commonsense={"source": "none"}).handicaps == {}


def test_the_plugin_offers_it():
    registrar = Registrar("agent", "cbr_tpc")
    cbr_tpc.register_agents(registrar)
    (component,) = registrar.components
    assert (component.name, component.load_factory(), component.load_config()) == ("tpc", TpcAgent, TpcConfig)
