"""BiKE: the contract of agents, and that both graphs and their meeting matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from graph_agents import SHIRT, GraphAgentSuite

import cbr_bike
from cbr_bike.agent import BikeAgent
from cbr_bike.config import BikeConfig
from cbrcore import Observation, StateGraph
from cbrcore.interfaces import AgentInput, Build
from cbrcore.registry import Registrar
from cbrcore.testing import WordHashEncoder

SMALL = {"hidden": 8, "unit": "sentence", "commonsense": {"source": "embedded"}}


def bike(build: Build, **settings: Any) -> BikeAgent:
    torch.manual_seed(0)
    return BikeAgent(BikeConfig(**{**SMALL, **settings}), build)


class TestBike(GraphAgentSuite):
    def make(self, build: Build) -> BikeAgent:
        return bike(build)


class TestBikeOnSimilarNames(GraphAgentSuite):
    def make(self, build: Build) -> BikeAgent:
        return bike(build, commonsense={"source": "nearest", "threshold": 0.0})


@pytest.fixture
def build() -> Build:
    return Build(text_encoder=WordHashEncoder())


def logits(agent: BikeAgent, seen: Observation) -> torch.Tensor:
    return agent.train(False).policy([AgentInput(seen, agent.initial_state())])[0].logits


def test_frozen_vectors_are_projected_linearly(build: Build):
    assert [name for name in bike(build).state_dict() if name.startswith("project") and "bias" in name] == []


def test_both_graphs_change_what_it_does(build: Build):
    informed, ignorant = bike(build), bike(build, commonsense={"source": "none"})
    ignorant.load_state_dict(informed.state_dict())
    assert not torch.allclose(logits(informed, SHIRT), logits(ignorant, SHIRT))
    moved = replace(SHIRT, graph=StateGraph.of([*SHIRT.graph.triples, ("bed", "in", "wardrobe")]))
    assert not torch.allclose(logits(ignorant, SHIRT), logits(ignorant, moved))


def test_each_graph_is_read_in_the_light_of_the_other(build: Build):
    """What the state graph says about a command changes with the commonsense graph, and the reverse."""
    agent = bike(build).train(False)
    heard: dict[str, list[torch.Tensor]] = {"local": [], "world": []}
    agent.score.ask_local.register_forward_hook(lambda *call: heard["local"].append(call[2]))
    agent.score.ask_world.register_forward_hook(lambda *call: heard["world"].append(call[2]))
    moved = replace(SHIRT, graph=StateGraph.of([*SHIRT.graph.triples, ("bed", "in", "wardrobe")]))
    logits(agent, SHIRT)
    logits(agent, moved)  # the same names: the same commonsense graph
    agent.commonsense = bike(build, commonsense={"source": "none"}).commonsense
    logits(agent, SHIRT)
    assert not torch.allclose(heard["world"][0], heard["world"][1])
    assert not torch.allclose(heard["local"][0], heard["local"][2])


def test_it_says_where_its_commonsense_comes_from(build: Build):
    assert "cosine above 0.5" in bike(build, commonsense={"source": "nearest"}).handicaps["commonsense"]


def test_the_plugin_offers_it():
    registrar = Registrar("agent", "cbr_bike")
    cbr_bike.register_agents(registrar)
    (component,) = registrar.components
    assert (component.name, component.load_factory(), component.load_config()) == ("bike", BikeAgent, BikeConfig)
