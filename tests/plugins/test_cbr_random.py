"""The random agent."""

from __future__ import annotations

import torch

from cbr_random.agent import RandomAgent
from cbrcore import Action, Build, NoSettings, Observation, StateGraph
from cbrcore.interfaces import AgentInput
from cbrcore.testing import AgentSuite


class TestContract(AgentSuite):
    def make(self, build: Build) -> RandomAgent:
        return RandomAgent(NoSettings(), build)


def test_every_action_is_equally_likely_and_worth_nothing():
    agent = RandomAgent(NoSettings(), Build())
    seen = Observation("", "", "", tuple(Action(name, name) for name in "abc"), StateGraph(()))
    (output,) = agent.policy([AgentInput(seen, agent.initial_state())])
    assert torch.softmax(output.logits, 0).tolist() == torch.full((3,), 1 / 3).tolist()
    assert output.value.item() == 0
    assert list(agent.parameters()) == []
