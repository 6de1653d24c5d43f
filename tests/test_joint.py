"""A joint agent in the core: it chooses itself, and one optimiser trains it and the retriever [P App. E]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import toy_run
from parts import (
    CosineQuantizer,
    DenseIndex,
    PullingQuantizer,
    ScriptedAgent,
    TableEncoder,
    act,
    item,
    observation,
    paper_rule,
)
from run_folders import rows
from test_memory import HERE
from torch import nn

from cbr_joint.agent import JointAgent
from cbr_joint.config import JointConfig, JointLearnerConfig
from cbr_joint.learner import JointLearner
from cbr_memory.memory import CaseMemory
from cbr_text.agent import TextAgent
from cbr_text.config import TextConfig
from cbrcore.config import Part, TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import AgentInput, Build, PolicyOutput, Stopwatch
from cbrcore.rng import Streams
from cbrcore.runs.assemble import Parts
from cbrcore.testing import WordHashEncoder
from cbrcore.types import Action, Ending, StateGraph, StepResult, Transition

TABLE = {"book": [1.0, 0.0, 0.2], "novel": [0.9, 0.3, 0.0], "plate": [0.0, 1.0, 0.1], "shelf": [0.0, 0.1, 0.3]}
LOOK, TAKE_NOVEL, TAKE_PLATE = act("look"), act("take {}", "novel"), act("take {}", "plate")
NOVEL_SHELF = act("put {} on {}", "novel", "shelf")
BOOK_SHELF = act("put {} on {}", "book", "shelf")
OFFERED = observation(LOOK, NOVEL_SHELF, TAKE_NOVEL, TAKE_PLATE)


class WeighingAgent(nn.Module):
    """A joint agent to be followed by hand: an action's logit is strength × the relevance of its candidate."""

    def __init__(self, *, strength: float = 2.0) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(strength))
        self.value = nn.Parameter(torch.tensor(0.3))

    def initial_state(self) -> None:
        return None

    def revise(self, candidates, drawn):
        return next((candidate for candidate in candidates if candidate.action == drawn), None)

    def policy(self, inputs):
        return [PolicyOutput(self._logits(item), self.value * 1.0) for item in inputs]

    def _logits(self, item: AgentInput) -> torch.Tensor:
        relevance = item.relevance
        if relevance is None:
            relevance = torch.tensor([candidate.match.relevance for candidate in item.candidates])
        logits = torch.zeros(len(item.observation.admissible))
        for candidate, delta in zip(item.candidates, relevance, strict=True):
            at = torch.tensor([action == candidate.action for action in item.observation.admissible])
            logits = logits + at * self.strength * delta
        return logits


def reasoner(agent=None) -> CaseBasedReasoner:
    """Its memory holds "put book on shelf" and "take book"."""
    retriever = Retriever(TableEncoder(TABLE), CosineQuantizer(), CaseMemory(DenseIndex(), threshold=0.7))
    made = CaseBasedReasoner(agent or WeighingAgent(), retriever, toy_run.LastOne(), paper_rule())
    for action in (BOOK_SHELF, act("take {}", "book")):
        key = retriever.keys(StateGraph.of([]), [action.seeds])[0]
        retriever.memory.add(item(key, action), HERE, step=1)
    return made


def decisions(made: CaseBasedReasoner, count: int = 40):
    rng = np.random.default_rng(0)
    return [made.decide(OFFERED, rng) for _ in range(count)]


# -- the reasoner ----------------------------------------------------------------------------------------------


def test_a_joint_agent_chooses_itself_and_the_candidate_that_it_took_is_noted():
    found = {decision.action.text: decision for decision, _ in decisions(reasoner())}
    assert set(found) == {"look", "put novel on shelf", "take novel", "take plate"}
    for decision in found.values():
        assert decision.source == "agent"
        assert decision.action == decision.agent_action
        assert {candidate.action for candidate in decision.candidates} == {NOVEL_SHELF, TAKE_NOVEL}
    assert found["look"].chosen is found["take plate"].chosen is None
    assert found["put novel on shelf"].chosen.match.case.text == "put book on shelf"
    assert found["take novel"].chosen.match.case.text == "take book"


class ObedientAgent(WeighingAgent):
    """The same without the ability to revise."""

    revise = None


def test_the_same_agent_without_the_ability_reuses_by_rule():
    found = decisions(reasoner(ObedientAgent()))
    assert {(d.action.text, d.source) for d, _ in found} == {("put novel on shelf", "reuse")}


def test_a_trace_holds_the_key_of_each_candidate():
    made = reasoner()
    _, trace = made.decide(OFFERED, np.random.default_rng(0))
    cases = [candidate.match.case for candidate in trace.agent_input.candidates]
    assert len(cases) == len(trace.candidate_keys) == 2
    for case, key in zip(cases, trace.candidate_keys, strict=True):
        assert torch.equal(key, made.retriever.memory.key_of(case))
    assert reasoner(ScriptedAgent()).decide(OFFERED, np.random.default_rng(0))[1].candidate_keys == ()


# -- the learner -----------------------------------------------------------------------------------------------

CONFIG = TrainingConfig(
    agent_learning_rate=0.05, retriever_learning_rate=0.02, entropy_weight=0.1, update_every=3, clip=1000
)


def learner(made: CaseBasedReasoner, config: TrainingConfig = CONFIG) -> JointLearner:
    made_learner = JointLearner()
    made_learner.begin([made], config, Streams(3), Stopwatch())
    return made_learner


def steps(made: CaseBasedReasoner) -> list[Transition]:
    """Three steps of an episode that ends: a rewarded candidate, one that failed, and no candidate."""
    by_action = {decision.action: (decision, trace) for decision, trace in decisions(made)}
    outcomes = [(NOVEL_SHELF, 1.0, None), (TAKE_NOVEL, 0.0, None), (LOOK, 0.0, Ending.WON)]
    return [
        Transition(OFFERED, by_action[action][0], StepResult(OFFERED, reward, ending), by_action[action][1])
        for action, reward, ending in outcomes
    ]


def learn(made: CaseBasedReasoner, transitions: list[Transition], config: TrainingConfig = CONFIG) -> JointLearner:
    trained = learner(made, config)
    for transition in transitions:
        trained.took_step(0, transition)
    trained.round_of_steps_done()
    return trained


@pytest.mark.parametrize("pull", [0.0, 0.5])
def test_an_update_is_one_step_of_adam_on_the_sum_of_all_losses(pull):
    """The same by hand: contexts are sums of table rows, similarities cosines, and there are three steps. The
    regularizer sees each context that was offered something once."""
    made, twin = reasoner(), reasoner()
    made.retriever.quantizer = PullingQuantizer(pull)
    trained = learn(made, steps(made))

    agent, rows = twin.agent, twin.retriever.encoder.rows
    novel, shelf = rows[1], rows[3]
    keys = [torch.tensor(TABLE["book"]) + torch.tensor(TABLE["shelf"]), torch.tensor(TABLE["book"])]
    put = torch.cosine_similarity(novel + shelf, keys[0], dim=0)
    take = torch.cosine_similarity(novel, keys[1], dim=0)
    zero = torch.zeros(())
    log_pi = torch.stack([zero, agent.strength * put, agent.strength * take, zero]).log_softmax(0)
    returns = torch.tensor([1.0, 0.0, 0.0])  # one reward, on the first step; the game is over after the third
    advantage = (returns - agent.value).detach()
    loss_policy = -(advantage * log_pi[[1, 2, 0]]).sum()
    loss_value = 0.5 * 0.5 * (returns - agent.value).square().sum()
    loss_entropy = 0.1 * 3 * (log_pi.exp() * log_pi).sum()
    loss_retriever = 0.5 * (1 - put) ** 2 + 0.5 * (0.5 - 1 + take).clamp(min=0) ** 2
    adam = torch.optim.Adam(
        [{"params": [agent.strength, agent.value], "lr": 0.05}, {"params": [rows], "lr": 0.02}]
    )
    regularizer = pull * ((novel + shelf).square().sum() + novel.square().sum())
    (loss_policy + loss_value + loss_entropy + loss_retriever + regularizer).backward()
    adam.step()

    for mine, theirs in zip(_parameters(made), _parameters(twin), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
        torch.testing.assert_close(mine, theirs)
    losses = trained.pop_losses()
    assert losses["loss_policy"] == pytest.approx(loss_policy.item() / 3)
    assert losses["loss_value"] == pytest.approx(loss_value.item() / 3)
    assert losses["loss_entropy"] == pytest.approx(loss_entropy.item() / 3)
    assert losses["loss_retriever"] == pytest.approx(loss_retriever.item() / 2)
    assert made.retriever.quantizer.maintained == 1


@pytest.mark.parametrize(("pull", "count"), [(0.0, 1), (float("nan"), 0), (float("inf"), 0)])
def test_the_quantizer_is_maintained_after_an_update_and_not_after_a_skipped_one(pull, count):
    made = reasoner()
    made.retriever.quantizer = PullingQuantizer(pull)
    trained = learn(made, steps(made))
    assert (made.retriever.quantizer.maintained, trained.skipped) == (count, 1 - count)


def _parameters(made: CaseBasedReasoner) -> list[torch.Tensor]:
    return [*made.agent.parameters(), *made.retriever.encoder.parameters()]


def test_the_agents_losses_reach_the_retriever_through_relevance():
    """A step whose action no case offered has no L_r; the retriever learns from it all the same."""
    made = reasoner()
    before = made.retriever.encoder.rows.detach().clone()
    trained = learn(made, steps(made)[2:])
    assert trained.pop_losses()["loss_retriever"] is None
    moved = (made.retriever.encoder.rows.detach() - before).abs().sum(dim=1) > 0
    assert moved.tolist() == [False, True, False, True]  # book (a key), novel, plate (not offered), shelf


def test_a_step_that_pays_no_second_time_teaches_the_retriever_nothing_by_itself():
    made = reasoner()
    (_, failed, _) = steps(made)
    again = StepResult(failed.result.observation, 0.0, Ending.WON, rescored=True)
    trained = learn(made, [Transition(OFFERED, failed.decision, again, failed.trace)])
    assert trained.pop_losses()["loss_retriever"] is None


def l_r(made: CaseBasedReasoner, action: Action, *, right: bool) -> float:
    """Of one of the candidates, with the weights as they are."""
    rows, names = made.retriever.encoder.rows, {"put novel on shelf": (1, 3), "take novel": (1,)}[action.text]
    key = torch.tensor(TABLE["book"]) + (torch.tensor(TABLE["shelf"]) if len(names) == 2 else 0.0)
    sim = torch.cosine_similarity(rows[list(names)].sum(dim=0), key, dim=0).item()
    return 0.5 * (1 - sim) ** 2 if right else 0.5 * max(0.0, 0.5 - 1 + sim) ** 2


def of_outcomes(made: CaseBasedReasoner, outcome_steps: int, update_every: int) -> JointLearner:
    trained = JointLearner(JointLearnerConfig(outcome_steps=outcome_steps))
    trained.begin([made], CONFIG.model_copy(update={"update_every": update_every}), Streams(3), Stopwatch())
    return trained


@pytest.mark.parametrize(("outcome_steps", "right"), [(1, False), (2, True), (3, True)])
def test_the_rewards_of_the_next_steps_count_for_a_candidate_if_asked_to(outcome_steps, right):
    """TAKE_NOVEL earns nothing, the next step does; both were candidates."""
    made = reasoner()
    rewarded, failed, _ = steps(made)
    expected = l_r(made, TAKE_NOVEL, right=right) + l_r(made, NOVEL_SHELF, right=True)
    trained = of_outcomes(made, outcome_steps, update_every=9)
    trained.took_step(0, failed)
    trained.took_step(0, replace(rewarded, result=StepResult(OFFERED, 1.0, Ending.WON)))
    trained.round_of_steps_done()
    assert trained.pop_losses()["loss_retriever"] == pytest.approx(expected / 2)


def test_a_step_of_an_earlier_window_has_its_loss_when_its_outcome_is_known():
    """Windows of one step, outcomes of two. L_r is that of the weights of then; the agent's losses are those of
    the window's own step alone, which was offered less."""
    made, less = reasoner(), observation(LOOK, TAKE_NOVEL)
    _, failed, _ = steps(made)
    rng = np.random.default_rng(0)
    decision, trace = next(each for each in (made.decide(less, rng) for _ in range(40)) if each[0].action == LOOK)
    trained = of_outcomes(made, outcome_steps=2, update_every=1)
    trained.took_step(0, failed)
    trained.round_of_steps_done()
    assert trained.pop_losses()["loss_retriever"] is None
    value, expected = made.agent.value.item(), l_r(made, TAKE_NOVEL, right=True)
    trained.took_step(0, Transition(less, decision, StepResult(less, 1.0, Ending.WON), trace))
    trained.round_of_steps_done()
    losses = trained.pop_losses()
    assert losses["loss_retriever"] == pytest.approx(expected)
    assert losses["loss_value"] == pytest.approx(0.5 * 0.5 * (1.0 - value) ** 2)
    assert trained.outcomes.take() == []


def test_a_frozen_retriever_stays_as_it_is():
    made = reasoner()
    before = [value.detach().clone() for value in _parameters(made)]
    learn(made, steps(made), CONFIG.model_copy(update={"retriever_learning_rate": 0.0}))
    moved = [not torch.equal(a, b) for a, b in zip(before, _parameters(made), strict=True)]
    assert moved == [True, True, False]
    assert made.retriever.quantizer.maintained == 0


def test_an_empty_memory_trains_the_agent_alone():
    made = CaseBasedReasoner(WeighingAgent(), reasoner().retriever, toy_run.LastOne(), paper_rule())
    made.retriever.memory = CaseMemory(DenseIndex())
    before = [value.detach().clone() for value in _parameters(made)]
    look = next((d, trace) for d, trace in decisions(made) if d.action == LOOK)
    learn(made, [Transition(OFFERED, look[0], StepResult(OFFERED, 1.0, Ending.WON), look[1])])
    moved = [not torch.equal(a, b) for a, b in zip(before, _parameters(made), strict=True)]
    assert moved == [False, True, False]  # no candidate, so that the strength of none matters


def test_there_is_one_optimiser():
    trained = learner(reasoner())
    assert list(dict.fromkeys(trained.optimizer.rates)) == [0.05, 0.02]


# -- whole runs ------------------------------------------------------------------------------------------------

PARTS = toy_run.parts


def joint_parts(*arguments, **settings) -> Parts:
    """The toy run's parts with a joint agent: `cbr_joint` around the Text agent."""
    built = PARTS(*arguments, **settings)
    torch.manual_seed(0)
    inner = Part(use="cbr_text/text", settings=TextConfig(hidden=4))
    build = Build(text_encoder=WordHashEncoder(), make=lambda setting, build: TextAgent(inner.settings, build))
    agent = JointAgent(JointConfig(agent=inner, width=4), build).train(False)
    retriever = built.reasoner.retriever
    made = CaseBasedReasoner(agent, retriever, toy_run.LastOne(), paper_rule(), clock=built.clock)
    return Parts(built.environments, made, built.streams, built.clock, built.device)


@pytest.fixture
def _joint(monkeypatch):
    monkeypatch.setattr(toy_run, "parts", joint_parts)
    monkeypatch.setattr(toy_run, "A2cLearner", JointLearner)


@pytest.mark.usefixtures("_joint")
@pytest.mark.parametrize("outcome_steps", [1, 7])
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("stop_after", [6, 11, 16])
def test_an_interrupted_and_resumed_joint_run_equals_the_uninterrupted_one(
    tmp_path, monkeypatch, stop_after, num_envs, outcome_steps
):
    config = JointLearnerConfig(outcome_steps=outcome_steps)
    monkeypatch.setattr(toy_run, "A2cLearner", lambda: JointLearner(config))
    toy_run.check_resuming(tmp_path, stop_after, num_envs=num_envs)


@pytest.mark.usefixtures("_joint")
def test_a_joint_run_moves_everything_and_counts_what_the_agent_took_from_the_memory(tmp_path):
    experiment = toy_run.run(tmp_path, episodes=20)
    before = {**joint_parts().reasoner.agent.state_dict()}
    after = experiment.parts.reasoner.agent.state_dict()
    assert [name for name in before if torch.equal(before[name], after[name])] == []
    found = rows(tmp_path)
    assert any(row["loss_retriever"] is not None for row in found)
    assert sum(row["reused"] for row in found) > 0
    assert all(row["agent_steps"] + row["reused"] == row["steps"] for row in found)
    assert sum(case.reused for case in experiment.parts.reasoner.retriever.memory.cases) == sum(
        row["reused"] for row in found
    )
