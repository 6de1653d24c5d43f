"""The joint variant: the selector by hand, the contract of agents, and every agent inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_agents import LATER, SHIRT, sample_observation
from torch import nn

import cbr_joint
from cbr_bike.agent import BikeAgent
from cbr_bike.config import BikeConfig
from cbr_joint.agent import JointAgent
from cbr_joint.config import JointConfig, JointLearnerConfig
from cbr_joint.learner import JointLearner
from cbr_joint.selector import ActionSelector
from cbr_kga2c.config import ScorerConfig
from cbr_kga2c.scorer import ScorerAgent
from cbr_random.agent import RandomAgent
from cbr_text.agent import TextAgent
from cbr_text.config import TextConfig
from cbr_tpc.agent import TpcAgent
from cbr_tpc.config import TpcConfig
from cbrcore import Action, CbrError, NoSettings
from cbrcore.config import Part
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.interfaces import AgentInput, Build, RevisingAgent
from cbrcore.registry import Registrar
from cbrcore.testing import AgentSuite, LearnerSuite, WordHashEncoder, sample_player
from cbrcore.types import Candidate, Case, Match, Provenance

torch.set_num_threads(1)

EMBEDDED = {"source": "embedded"}
AGENTS: dict[str, Callable[[Build], nn.Module]] = {
    "text": lambda build: TextAgent(TextConfig(hidden=8), build),
    "tpc": lambda build: TpcAgent(TpcConfig(hidden=8, commonsense=EMBEDDED), build),
    "kga2c": lambda build: ScorerAgent(ScorerConfig(hidden=8), build),
    "bike": lambda build: BikeAgent(BikeConfig(hidden=8, commonsense=EMBEDDED), build),
}
CASE = Case(0, "put {} on {}", ("sock", "bed"), "put sock on bed", Provenance("game", 0, 1, 0, 1.0))


@pytest.fixture
def build() -> Build:
    return Build(text_encoder=WordHashEncoder())


def joint(build: Build, inner: str = "text", **settings: Any) -> JointAgent:
    torch.manual_seed(0)
    config = JointConfig(agent=Part(use=f"cbr_{inner}/{inner}", settings=NoSettings()), **{"width": 4} | settings)
    return JointAgent(config, replace(build, make=lambda setting, build: AGENTS[inner](build)))


def offer(action: Action, relevance: float = 0.9, verdict: str = "admissible") -> Candidate:
    return Candidate(action, Match(CASE, relevance), action.seeds, verdict)


LOOK, WARDROBE, BED = SHIRT.admissible
NOWHERE_TO_PUT = Action.from_template("put {} on {}", ["shirt", "ceiling"])
OFFERED = (offer(WARDROBE, 0.95), offer(BED, 0.8), offer(NOWHERE_TO_PUT, 0.8, "inadmissible"))


def logits(agent: JointAgent, *candidates: Candidate, **changes: Any) -> torch.Tensor:
    item = AgentInput(SHIRT, agent.initial_state(), candidates, **changes)
    return agent.train(False).policy([item])[0].logits


class TestJointText(AgentSuite):
    def make(self, build: Build) -> JointAgent:
        return joint(build, "text")


class TestJointBike(AgentSuite):
    def make(self, build: Build) -> JointAgent:
        return joint(build, "bike")


# --- the selector -------------------------------------------------------------------------------------------


class TestJointLearner(LearnerSuite):
    def make(self, build: Build) -> JointLearner:
        return JointLearner(JointLearnerConfig(), build)

    def player(self, build: Build) -> CaseBasedReasoner:
        return CaseBasedReasoner(joint(build), sample_player().retriever)


class TestJointLearnerThatWaits(TestJointLearner):
    """For outcomes that reach over its windows of three steps."""

    def make(self, build: Build) -> JointLearner:
        return JointLearner(JointLearnerConfig(outcome_steps=5), build)


def selector(nothing: list[float], trust: float = 0.0) -> ActionSelector:
    made = ActionSelector(WordHashEncoder(), len(nothing))
    with torch.no_grad():
        made.nothing.copy_(torch.tensor(nothing))
        made.trust.fill_(trust)
    return made


def test_attention_by_hand():
    """w = 4, so scores are divided by 2. Action 0: 2 ln 2 / 2 = ln 2 for the candidate and 0 for "nothing", so the
    attention is 2/3 and 1/3. Action 1 is at right angles to both: 1/2 and 1/2."""
    actions = torch.tensor([[2.0, 0, 0, 0], [0, 0, 1, 0]])
    candidates = torch.tensor([[math.log(2), 6.0, 0, 0]])
    found = selector([0, 0, 0, 3.0])(actions, candidates, torch.tensor([0.9]))
    attended = [[2 / 3 * math.log(2), 4.0, 0, 1.0], [1 / 2 * math.log(2), 3.0, 0, 1.5]]
    products = [[4 / 3 * math.log(2), 0, 0, 0], [0, 0, 0, 0]]
    torch.testing.assert_close(found[:, :4], torch.tensor(attended))
    torch.testing.assert_close(found[:, 4:8], torch.tensor(products))
    torch.testing.assert_close(found[:, 8], torch.tensor([2 / 3 * 0.9, 1 / 2 * 0.9]))


def test_relevance_draws_attention_by_hand():
    """Two candidates at right angles to the action: e^(ln 4 · 1) : e^(ln 4 · 0.5) : e^0 = 4 : 2 : 1."""
    candidates = torch.tensor([[0, 7.0], [0, 14.0]])
    found = selector([0.0, 0.0], trust=math.log(4))(torch.tensor([[1.0, 0]]), candidates, torch.tensor([1.0, 0.5]))
    torch.testing.assert_close(found, torch.tensor([[0, 4 + 4.0, 0, 0, 4 / 7 + 1 / 7]]))


def test_without_candidates_every_action_attends_to_nothing():
    nothing = [0.0, 2.0]
    found = selector(nothing, trust=1.0)(
        torch.tensor([[1.0, 3.0], [5.0, -1.0]]), torch.zeros(0, 2), torch.zeros(0)
    )
    assert found.tolist() == [[0, 2, 0, 6, 0], [0, 2, 0, -2, 0]]


def test_an_action_attends_most_to_the_candidate_that_is_the_same_command():
    torch.manual_seed(0)
    made = ActionSelector(WordHashEncoder(), 32)
    actions = made.read([LOOK.text, WARDROBE.text, BED.text])
    scores = actions @ actions.T
    assert scores.argmax(dim=1).tolist() == [0, 1, 2]


# --- the agent ----------------------------------------------------------------------------------------------


def test_candidates_change_what_it_does(build: Build):
    agent = joint(build)
    bare, offered = logits(agent), logits(agent, offer(BED))
    assert not torch.allclose(bare, offered)
    assert not torch.allclose(offered, logits(agent, offer(WARDROBE)))
    assert not torch.allclose(offered, logits(agent, offer(BED, 0.75)))


def test_the_order_of_candidates_does_not_matter(build: Build):
    agent = joint(build, "bike")
    forth, back = logits(agent, *OFFERED), logits(agent, *OFFERED[::-1])
    torch.testing.assert_close(forth, back, atol=1e-6, rtol=0)


def test_the_order_of_actions_is_the_order_of_logits(build: Build):
    agent = joint(build)
    turned = replace(SHIRT, admissible=SHIRT.admissible[::-1])
    (back,) = agent.train(False).policy([AgentInput(turned, agent.initial_state(), OFFERED)])
    torch.testing.assert_close(logits(agent, *OFFERED), back.logits.flip(0), atol=1e-6, rtol=0)


@pytest.mark.parametrize("verdict", ["failed", "solved"])
def test_what_failed_or_is_solved_in_this_episode_is_not_offered_again(build: Build, verdict: str):
    agent = joint(build)
    assert torch.equal(logits(agent, offer(BED), offer(WARDROBE, verdict=verdict)), logits(agent, offer(BED)))
    torch.testing.assert_close(logits(agent, offer(BED, verdict=verdict)), logits(agent))


@pytest.mark.parametrize(
    ("recipe", "policy"),
    [("text_cbr_generated", "cbr_reuse/doubting"), ("goals_generated", "cbr_goals/goals")],
)
def test_a_reuse_policy_that_chooses_by_itself_is_refused(here, tmp_path, recipe: str, policy: str):
    """It would be asked nothing, and its settings would do nothing."""
    sets = ["agent={use: cbr_joint/joint, agent: {use: cbr_text/text, hidden: 16}}", "run.episodes=1"]
    sets += [f"reuse_policy.use={policy}"]
    path = Path(__file__).parents[2] / "recipes" / "smoke" / f"{recipe}.yaml"
    done = here("run", path, *(word for each in sets for word in ("--set", each)), "--out", tmp_path / "run")
    assert done.returncode == 2
    assert f"cbr_joint/joint chooses itself, and {policy} would have no say" in done.stderr
    assert "write 'reuse_policy: {use: cbr_reuse/most_relevant}'" in done.stderr


def test_what_is_inadmissible_is_still_heard(build: Build):
    agent = joint(build)
    assert not torch.allclose(logits(agent, OFFERED[2]), logits(agent))


@pytest.mark.parametrize("inner", AGENTS)
def test_inputs_with_different_candidates_do_not_influence_each_other(build: Build, inner: str):
    agent = joint(build, inner).train(False)
    few = replace(SHIRT, admissible=SHIRT.admissible[:1])
    inputs = [
        AgentInput(SHIRT, agent.initial_state(), OFFERED),
        AgentInput(few, agent.initial_state()),
        AgentInput(sample_observation(), agent.initial_state(), OFFERED[:1]),
    ]
    for together, item in zip(agent.policy(inputs), inputs, strict=True):
        torch.testing.assert_close(together.logits, agent.policy([item])[0].logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("inner", AGENTS)
def test_gradients_reach_selector_agent_and_relevance(build: Build, inner: str):
    agent = joint(build, inner)
    relevance = torch.tensor([0.95, 0.8, 0.8], requires_grad=True)
    first = AgentInput(SHIRT, agent.initial_state(), OFFERED, relevance=relevance)
    outputs = agent.policy([first, AgentInput(LATER, agent.policy([first])[0].state)])
    sum(output.logits.log_softmax(0)[1] + output.value for output in outputs).backward()
    for name, parameter in [*agent.selector.named_parameters(), *agent.agent.named_parameters()]:
        if not name.endswith("bias"):  # the last bias of the scores cancels in the softmax
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name
    assert (relevance.grad.abs() > 0).all()


def test_the_relevance_of_the_learner_is_that_of_the_matches(build: Build):
    agent = joint(build)
    given = torch.tensor([candidate.match.relevance for candidate in OFFERED])
    assert torch.equal(logits(agent, *OFFERED, relevance=given), logits(agent, *OFFERED))


def test_it_learns_to_follow_the_memory(build: Build):
    """What is right is what is offered, in either of two states that look the same."""
    agent = joint(build)
    inputs = [AgentInput(SHIRT, agent.initial_state(), (offer(action),)) for action in (WARDROBE, BED)]
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    for _ in range(40):
        loss = sum(-o.logits.log_softmax(0)[i] for i, o in zip((1, 2), agent.policy(inputs), strict=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert [int(output.logits.argmax()) for output in agent.policy(inputs)] == [1, 2]


def test_texts_are_read_once_until_an_episode_starts(build: Build, monkeypatch: pytest.MonkeyPatch):
    agent = joint(build).train(False)
    asked: list[str] = []
    encode = WordHashEncoder.encode
    monkeypatch.setattr(WordHashEncoder, "encode", lambda self, t: asked.extend(t) or encode(self, t))
    with torch.no_grad():
        logits(agent, *OFFERED)
        asked.clear()
        agent.policy([AgentInput(SHIRT, torch.zeros(16), OFFERED)])
        assert asked == []
        logits(agent, *OFFERED)  # begins an episode
    assert NOWHERE_TO_PUT.text in asked


def test_it_is_the_other_agent_in_everything_else(build: Build):
    agent = joint(build, "bike")
    assert isinstance(agent, RevisingAgent)
    assert agent.handicaps == agent.agent.handicaps != {}
    assert agent.initial_state().hidden.shape == (16,)
    assert {name.split(".")[0] for name in agent.state_dict()} == {"agent", "selector"}


def test_an_agent_that_would_not_listen_is_refused(build: Build):
    config = JointConfig(agent=Part(use="cbr_random/random", settings=NoSettings()))
    with pytest.raises(CbrError, match="cbr_random/random cannot be told about candidates"):
        JointAgent(config, replace(build, make=lambda setting, build: RandomAgent(NoSettings(), build)))


@pytest.mark.parametrize("more", [-1, 1, 8])
def test_an_agent_that_takes_in_another_number_of_features_is_refused(build: Build, more: int):
    def make(setting: str, build: Build) -> nn.Module:
        return AGENTS["text"](replace(build, action_features=build.action_features + more))

    config = JointConfig(agent=Part(use="cbr_text/text", settings=NoSettings()), width=4)
    with pytest.raises(CbrError, match="cbr_text/text cannot be told about candidates"):
        JointAgent(config, replace(build, make=make))


@pytest.mark.parametrize("inner", AGENTS)
def test_its_weights_are_on_the_device_that_was_asked_for(build: Build, inner: str):
    agent = joint(replace(build, device="meta"), inner)
    assert {each.device.type for each in (*agent.parameters(), *agent.buffers())} == {"meta"}


def test_a_missing_text_encoder_is_named(build: Build):
    with pytest.raises(CbrError, match="the joint agent needs a text encoder"):
        joint(replace(build, text_encoder=None))


def test_outside_of_a_recipe_nothing_builds_the_inner_agent(build: Build):
    config = JointConfig(agent=Part(use="cbr_text/text", settings=TextConfig()))
    with pytest.raises(CbrError, match="nothing builds the part in the setting 'agent'"):
        JointAgent(config, build)


def test_the_plugin_offers_it():
    registrar = Registrar("agent", "cbr_joint")
    cbr_joint.register_agents(registrar)
    (component,) = registrar.components
    assert (component.name, component.load_factory(), component.load_config()) == (
        "joint",
        JointAgent,
        JointConfig,
    )


# --- features of actions, in every agent --------------------------------------------------------------------


@pytest.mark.parametrize("inner", AGENTS)
def test_every_agent_takes_features_in(build: Build, inner: str):
    """Each action's features change its own score, and no other one."""
    torch.manual_seed(0)
    agent = AGENTS[inner](replace(build, action_features=3)).train(False)
    assert agent.action_features == 3

    def scores(features: torch.Tensor) -> torch.Tensor:
        return agent.policy([AgentInput(SHIRT, agent.initial_state(), action_features=features)])[0].logits

    features = torch.zeros(3, 3, requires_grad=True)
    before = scores(features)
    changed = scores(torch.tensor([[0.0, 0, 0], [5.0, -3.0, 4.0], [0, 0, 0]]))
    assert torch.equal(before == changed, torch.tensor([True, False, True]))
    before.square().sum().backward()
    assert (features.grad.abs() > 0).all()


@pytest.mark.parametrize("inner", AGENTS)
def test_without_features_an_agent_has_the_weights_that_it_had(build: Build, inner: str):
    """e = 0 leaves the layers, their names, and the random numbers they start from as they are."""
    agents = []
    for features in (0, 2):
        torch.manual_seed(0)
        agents.append(AGENTS[inner](replace(build, action_features=features)))
    plain, wide = (agent.state_dict() for agent in agents)
    assert plain.keys() == wide.keys()
    differing = [name for name in plain if plain[name].shape != wide[name].shape]
    assert len(differing) == 1
    assert differing[0].endswith("actor.0.weight")
    assert wide[differing[0]].shape[1] == plain[differing[0]].shape[1] + 2
