"""KG-A2C: the contract of agents, its ways of reading, and what the state graph does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from graph_agents import LATER, SHIRT, GraphAgentSuite

import cbr_kga2c
from cbr_kga2c.config import ScorerConfig
from cbr_kga2c.reading import bits, part
from cbr_kga2c.scorer import ScorerAgent
from cbrcore import Observation, StateGraph
from cbrcore.interfaces import AgentInput, Build
from cbrcore.registry import Registrar
from cbrcore.testing import WordHashEncoder


def kga2c(build: Build, **settings: Any) -> ScorerAgent:
    torch.manual_seed(0)
    return ScorerAgent(ScorerConfig(**{"hidden": 8, "unit": "sentence", **settings}), build)


class TestKga2c(GraphAgentSuite):
    def make(self, build: Build) -> ScorerAgent:
        return kga2c(build)


class TestKga2cByParts(GraphAgentSuite):
    def make(self, build: Build) -> ScorerAgent:
        return kga2c(build, unit="observation", inputs="parts", score_bits=10)


@pytest.fixture
def build() -> Build:
    return Build(text_encoder=WordHashEncoder())


def logits(agent: ScorerAgent, seen: Observation) -> torch.Tensor:
    return agent.train(False).policy([AgentInput(seen, agent.initial_state())])[0].logits


@pytest.mark.parametrize(
    ("score", "count", "expected"),
    [
        (5, 4, [0, 1, 0, 1]),
        (-5, 4, [1, 1, 0, 1]),
        (0, 3, [0, 0, 0]),
        (1000, 4, [0, 1, 1, 1]),
        (2.9, 3, [0, 1, 0]),
        (-1, 1, [1]),
        (9, 4, [0, 1, 1, 1]),
        (8, 4, [0, 1, 1, 1]),
        (7, 0, []),
    ],
)
def test_a_score_in_bits(score: float, count: int, expected: list[int]):
    assert bits(score, count) == expected


def test_after_reset_the_last_action_is_look():
    assert part(SHIRT, "last_action") == "look"
    assert part(LATER, "last_action") == "put shirt on wardrobe"
    assert [part(SHIRT, name) for name in ("feedback", "description", "inventory", "observation")] == [
        SHIRT.feedback,
        SHIRT.description,
        SHIRT.inventory,
        SHIRT.text,
    ]


def test_the_state_graph_changes_what_it_does(build: Build):
    agent = kga2c(build)
    moved = replace(SHIRT, graph=StateGraph.of([*SHIRT.graph.triples, ("bed", "in", "wardrobe")]))
    assert not torch.allclose(logits(agent, SHIRT), logits(agent, moved))


def test_the_score_is_told_in_either_way_of_reading_if_asked(build: Build):
    richer = replace(SHIRT, score=3.0)
    for inputs in ("observation", "parts"):
        told, untold = kga2c(build, inputs=inputs, score_bits=10), kga2c(build, inputs=inputs)
        assert not torch.allclose(logits(told, SHIRT), logits(told, richer))
        assert torch.equal(logits(untold, SHIRT), logits(untold, richer))


def test_parts_are_told_apart(build: Build):
    agent = kga2c(build, inputs="parts", hint_commands=3)
    one = replace(SHIRT, feedback="Taken.", description="A shelf.", scored=("look",))
    other = replace(one, feedback=one.description, description=one.feedback)
    assert not torch.allclose(logits(agent, one), logits(agent, other))


def test_the_plugin_offers_it():
    registrar = Registrar("agent", "cbr_kga2c")
    cbr_kga2c.register_agents(registrar)
    component, _ = registrar.components
    assert (component.name, component.load_factory(), component.load_config()) == (
        "scorer",
        ScorerAgent,
        ScorerConfig,
    )
