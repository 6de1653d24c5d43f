"""The learner: the contract of its kind, and what an update is made of. Its losses: `tests/test_a2c.py`, ..."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from parts import PullingQuantizer
from test_joint import LOOK, NOVEL_SHELF, OFFERED, ObedientAgent, reasoner

from cbr_a2c.config import A2cConfig
from cbr_a2c.learner import A2cLearner
from cbr_a2c.novelty import Novelty
from cbr_a2c.windows import LossMeans, Windows, seed_all, training_mode
from cbrcore.config import TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.interfaces import Build, Stopwatch
from cbrcore.rng import Streams
from cbrcore.testing import LearnerSuite
from cbrcore.types import Decision, Ending, Fingerprint, StepResult, Transition

CONFIG = TrainingConfig(
    agent_learning_rate=0.05, retriever_learning_rate=0.02, entropy_weight=0.1, update_every=9, clip=1000
)


class TestA2cLearner(LearnerSuite):
    def make(self, build: Build) -> A2cLearner:
        return A2cLearner(A2cConfig(), build)


class TestA2cLearnerWithABonus(LearnerSuite):
    def make(self, build: Build) -> A2cLearner:
        return A2cLearner(A2cConfig(novelty=2.0), build)


class TestA2cLearnerThatWaits(LearnerSuite):
    """For outcomes that reach over its windows of three steps."""

    def make(self, build: Build) -> A2cLearner:
        return A2cLearner(A2cConfig(outcome_steps=5), build)


def player(pull: float = 0.0) -> CaseBasedReasoner:
    made = reasoner(ObedientAgent())
    made.retriever.quantizer = PullingQuantizer(pull)
    return made


def step(made: CaseBasedReasoner, reward: float, ending: Ending | None = None, **more) -> Transition:
    """One step that reuses "put book on shelf" for "put novel on shelf"."""
    decision, trace = made.decide(OFFERED, np.random.default_rng(0))
    assert (decision.source, decision.action) == ("reuse", NOVEL_SHELF)
    return Transition(OFFERED, decision, StepResult(OFFERED, reward, ending, **more), trace)


def own_step(made: CaseBasedReasoner, ending: Ending | None = None) -> Transition:
    """One step of the agent: it looks."""
    _, trace = made.decide(OFFERED, np.random.default_rng(0))
    return Transition(OFFERED, Decision(LOOK, "agent"), StepResult(OFFERED, 0.0, ending), trace)


def learn(
    made: CaseBasedReasoner, *steps: Transition, config: TrainingConfig = CONFIG, outcome_steps: int = 1
) -> A2cLearner:
    """An update on these steps of one episode; the last one ends it."""
    learner = A2cLearner(A2cConfig(outcome_steps=outcome_steps))
    learner.begin([made], config, Streams(3), Stopwatch())
    for transition in steps:
        learner.took_step(0, transition)
    learner.round_of_steps_done()
    return learner


def similarity(made: CaseBasedReasoner) -> torch.Tensor:
    """Of the context of "put novel on shelf" and the key of "put book on shelf", with gradients to the table."""
    rows, key = made.retriever.encoder.rows, made.retriever.memory.index.keys()[0]
    return torch.cosine_similarity(rows[1] + rows[3], key, dim=0)


# -- L_r -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reward", "together"), [(1.0, True), (0.25, True), (0.0, False), (-1.0, False)])
def test_a_reused_step_pulls_context_and_key_together_if_it_was_rewarded_and_apart_if_not(reward, together):
    made = player()
    before = similarity(made).item()
    learn(made, step(made, reward, Ending.LOST))
    assert (similarity(made).item() > before) == together


@pytest.mark.parametrize("pull", [0.0, 0.5])
@pytest.mark.parametrize("rewards", [[1.0], [0.0], [1.0, 0.0, 1.0], [-1.0, 0.5]])
def test_an_update_follows_the_gradient_of_l_r_and_of_the_quantizers_regularizer(rewards, pull):
    """Worked out from the table: L_r is (1 - sim)^2 / 2, or max(0, mu - 1 + sim)^2 / 2 without a reward, summed
    over the steps. What is reported is the mean of L_r alone."""
    made, twin = player(pull), player(pull)
    endings = [None] * (len(rewards) - 1) + [Ending.LOST]
    learner = learn(made, *(step(made, *pair) for pair in zip(rewards, endings, strict=True)))

    rows, sim = twin.retriever.encoder.rows, similarity(twin)
    losses = [0.5 * (1 - sim) ** 2 if r > 0 else 0.5 * (0.5 - 1 + sim).clamp(min=0) ** 2 for r in rewards]
    (sum(losses) + len(rewards) * pull * (rows[1] + rows[3]).square().sum()).backward()
    torch.testing.assert_close(made.retriever.encoder.rows.grad, rows.grad)
    assert learner.pop_losses()["loss_retriever"] == pytest.approx(sum(losses).item() / len(rewards))


def test_the_rewards_of_the_next_steps_count_for_a_reused_one_if_asked_to():
    """0 0 1 0 0 with three steps each: the first three are right, the last two failed. As the paper has it, the
    third alone is right."""
    rewards, endings = [0.0, 0.0, 1.0, 0.0, 0.0], [None] * 4 + [Ending.LOST]
    for outcome_steps, right in ((1, [2]), (2, [1, 2]), (3, [0, 1, 2]), (9, [0, 1, 2])):
        made, twin = player(), player()
        steps = [step(made, *pair) for pair in zip(rewards, endings, strict=True)]
        learner = learn(made, *steps, outcome_steps=outcome_steps)
        sim = similarity(twin)
        good, bad = 0.5 * (1 - sim) ** 2, 0.5 * (0.5 - 1 + sim).clamp(min=0) ** 2
        loss = len(right) * good + (len(rewards) - len(right)) * bad
        loss.backward()
        torch.testing.assert_close(made.retriever.encoder.rows.grad, twin.retriever.encoder.rows.grad)
        assert learner.pop_losses()["loss_retriever"] == pytest.approx(loss.item() / len(rewards))


def test_a_step_whose_outcome_is_not_known_waits_for_the_next_window():
    """Windows of two, outcomes of three: 0 0 | 1 0 | 0, and the episode is over."""
    made = player()
    learner = A2cLearner(A2cConfig(outcome_steps=3))
    learner.begin([made], CONFIG.model_copy(update={"update_every": 2}), Streams(3), Stopwatch())
    losses = []
    for reward, ending in ((0.0, None), (0.0, None), (1.0, None), (0.0, None), (0.0, Ending.LOST)):
        sim = similarity(made).item()
        learner.took_step(0, step(made, reward, ending))
        learner.round_of_steps_done()
        losses.append((learner.pop_losses()["loss_retriever"], 0.5 * (1 - sim) ** 2, 0.5 * max(0, sim - 0.5) ** 2))
    found, good, bad = zip(*losses, strict=True)
    assert found[:3] == (None, None, None)  # the first window: nothing is known; then the next one is not full
    assert found[3] == pytest.approx(good[3])  # the first two steps, both right
    assert found[4] == pytest.approx((good[4] + 2 * bad[4]) / 3)  # the rewarded one, and two that failed


def test_the_agents_own_rewards_count_for_the_reused_step_before_them():
    made, twin = player(), player()
    own = own_step(made, Ending.LOST)
    rewarded = replace(own, result=replace(own.result, reward=1.0))
    learner = learn(made, step(made, 0.0), rewarded, outcome_steps=2)
    assert learner.pop_losses()["loss_retriever"] == pytest.approx(0.5 * (1 - similarity(twin).item()) ** 2)


def test_without_a_memory_no_outcome_is_kept():
    made = CaseBasedReasoner(ObedientAgent())
    _, trace = made.decide(OFFERED, np.random.default_rng(0))
    alone = Transition(OFFERED, Decision(LOOK, "agent"), StepResult(OFFERED, 0.0, Ending.LOST), trace)
    assert learn(made, alone, outcome_steps=3).outcomes.take() == []


@pytest.mark.parametrize("outcome_steps", [1, 3])
def test_putting_a_scored_object_back_teaches_the_retriever_nothing(outcome_steps):
    """Neither alone nor among others: nothing is earned, yet the action is right."""
    made, twin = player(), player()
    learner = learn(made, step(made, 0.0, Ending.LOST, rescored=True), outcome_steps=outcome_steps)
    assert learner.pop_losses()["loss_retriever"] is None
    assert made.retriever.encoder.rows.grad is None
    mixed = learn(made, step(made, 1.0), step(made, 0.0, rescored=True), step(made, 0.0, Ending.LOST))
    without = learn(twin, step(twin, 1.0), step(twin, 0.0, Ending.LOST))
    assert mixed.pop_losses()["loss_retriever"] == without.pop_losses()["loss_retriever"]
    assert torch.equal(made.retriever.encoder.rows.grad, twin.retriever.encoder.rows.grad)


def test_the_agents_own_steps_are_no_part_of_l_r_and_reused_ones_none_of_the_agents_losses():
    made, twin = player(), player()
    learner = learn(made, own_step(made, Ending.LOST))
    assert learner.pop_losses()["loss_retriever"] is None
    assert made.agent.value.grad is not None
    alone = learn(twin, step(twin, 1.0, Ending.LOST)).pop_losses()
    assert twin.agent.value.grad is None
    assert [name for name, value in alone.items() if value is not None] == ["loss_retriever"]


@pytest.mark.parametrize(("pull", "count"), [(0.0, 1), (float("nan"), 0), (float("inf"), 0)])
def test_the_quantizer_is_maintained_after_an_update_and_not_after_a_skipped_one(pull, count):
    made = player(pull)
    before = made.retriever.encoder.rows.detach().clone()
    learner = learn(made, step(made, 1.0, Ending.LOST))
    assert (made.retriever.quantizer.maintained, learner.skipped) == (count, 1 - count)
    assert torch.equal(made.retriever.encoder.rows, before) == (count == 0)


def test_frozen_parts_are_left_alone():
    made = player()
    frozen = CONFIG.model_copy(update={"agent_learning_rate": 0.0, "retriever_learning_rate": 0.0})
    learner = learn(made, step(made, 1.0), own_step(made, Ending.LOST), config=frozen)
    assert set(learner.pop_losses().values()) == {None}
    assert made.retriever.quantizer.maintained == 0


def test_an_optimiser_goes_on_from_a_checkpoint_under_its_own_name():
    made = player()
    learner = learn(made, own_step(made), step(made, 1.0, Ending.LOST))
    assert {name.partition(":")[0] for name in learner.tensors()} == {"agent_optimizer", "retriever_optimizer"}
    again = learn(player())
    again.load_tensors({**learner.tensors(), "agent:value": torch.zeros(())})
    found = again.tensors()
    assert found.keys() == learner.tensors().keys()
    assert all(torch.equal(value, found[name]) for name, value in learner.tensors().items())


# -- further losses --------------------------------------------------------------------------------------------


class Strength:
    """1/2 (strength - 1)^2 of the agent for each of its steps, and a loss that is nothing."""

    names = ("strength", "nothing")

    def __init__(self, made: CaseBasedReasoner) -> None:
        self.made, self.asked = made, []

    def losses(self, steps, outputs):
        self.asked.append((list(steps), list(outputs)))
        strength = self.made.agent.strength
        return {"strength": len(steps) * 0.5 * (strength - 1).square(), "nothing": 0 * strength}


def test_further_losses_are_minimised_in_the_same_step_and_told_by_name():
    made, twin = player(), player()
    further = Strength(made)
    steps = [own_step(made), step(made, 1.0), own_step(made, Ending.LOST)]
    learner = A2cLearner(auxiliary=further)
    learner.begin([made], CONFIG, Streams(3), Stopwatch())
    for transition in steps:
        learner.took_step(0, transition)
    learner.round_of_steps_done()
    plain = learn(twin, own_step(twin), step(twin, 1.0), own_step(twin, Ending.LOST))
    ((asked, outputs),) = further.asked
    assert asked == [steps[0], steps[2]]
    assert len(outputs) == 2
    away = player().agent.strength.item() - 1
    torch.testing.assert_close(made.agent.strength.grad, twin.agent.strength.grad + 2 * away)
    losses, others = learner.pop_losses(), plain.pop_losses()
    assert losses == others | {"loss_strength": pytest.approx(0.5 * away**2), "loss_nothing": 0.0}
    assert learner.pop_losses() == dict.fromkeys(losses)


# -- windows ---------------------------------------------------------------------------------------------------


def window(*steps: Transition, **training) -> Windows:
    settings = CONFIG.model_copy(update={"gamma": 0.5, "win_bonus": 8.0, **training})
    made = Windows([player()], settings)
    for transition in steps:
        made.add(0, transition)
    return made


@pytest.mark.parametrize("ending", [None, *Ending])
def test_returns_by_the_ending_of_a_window(ending):
    """Rewards 1 and 0, gamma 1/2, V = 0.3: the bonus is for a victory alone, and V counts if the game goes on."""
    made = player()
    steps, returns = window(step(made, 1.0), step(made, 0.0, ending)).take(valued=True)
    bonus = 8.0 if ending is Ending.WON else 0.0
    value = 0.0 if ending in (Ending.WON, Ending.LOST, Ending.NO_ACTIONS) else 0.3
    last = bonus + 0.5 * value
    assert returns == pytest.approx([1.0 + 0.5 * last, last])
    assert [transition.result.ending for transition in steps] == [None, ending]


def seen(view: str | None):
    """An observation with this view."""
    return replace(OFFERED, fingerprint=None if view is None else Fingerprint("state", "world", view))


def test_what_was_seen_seldom_has_a_bonus():
    """By hand, weight 3: a hall for the first, second and third time 3, 3/sqrt 2, 3/sqrt 3; a cellar for the first
    time 3; where there is no fingerprint 0."""
    novelty = Novelty(3.0)
    bonuses = [novelty.see(seen(view)) for view in ("hall", "hall", "cellar", "hall", None)]
    assert bonuses == pytest.approx([3.0, 3 / 2**0.5, 3.0, 3 / 3**0.5, 0.0])
    resumed = Novelty(3.0)
    resumed.load_tensors(novelty.tensors())
    assert resumed.see(seen("hall")) == pytest.approx(1.5)
    assert resumed.see(seen("cellar")) == pytest.approx(3 / 2**0.5)
    assert Novelty(0.0).see(seen("hall")) == 0.0


def test_the_bonus_is_part_of_the_returns_and_of_nothing_else():
    """Rewards 1 and 0, gamma 1/2, weight 4: returns (1 + 4) + (4 / sqrt 2) / 2 and 4 / sqrt 2."""
    made = player()
    windows = Windows([made], CONFIG.model_copy(update={"gamma": 0.5}), novelty=4.0)
    for reward, ending in ((1.0, None), (0.0, Ending.LOST)):
        transition = step(made, reward, ending)
        transition = replace(transition, result=replace(transition.result, observation=seen("hall")))
        windows.add(0, transition)
    steps, returns = windows.take(valued=True)
    assert returns == pytest.approx([5 + 2 / 2**0.5, 4 / 2**0.5])
    assert [transition.result.reward for transition in steps] == [1.0, 0.0]
    assert windows.take(valued=True) == ([], [])


def test_that_an_environment_tells_no_views_is_said_once(caplog):
    made = player()
    for weight in (0.0, 4.0):
        windows = Windows([made], CONFIG, novelty=weight)
        for _ in range(2):
            windows.add(0, step(made, 1.0, None))
    said = [record.message for record in caplog.records]
    assert said == ["novelty: 4 has no effect: the environment tells no views (fingerprints)"]


def test_a_learner_goes_on_with_what_it_has_seen():
    made = player()
    learner, other = A2cLearner(A2cConfig(novelty=1.0)), A2cLearner(A2cConfig(novelty=1.0))
    for each in (learner, other):
        each.begin([made], CONFIG, Streams(3), Stopwatch())
    transition = step(made, 0.0)
    learner.took_step(0, replace(transition, result=replace(transition.result, observation=seen("hall"))))
    other.load_tensors(learner.tensors())
    assert other.windows.novelty.see(seen("hall")) == pytest.approx(2**-0.5)


def test_an_agent_that_learns_nothing_is_not_asked_for_its_value():
    _, returns = window(step(player(), 1.0)).take(valued=False)
    assert returns == [1.0]


@pytest.mark.parametrize(
    ("endings", "due"),
    [([], False), ([None] * 2, False), ([None] * 3, True), ([Ending.TRUNCATED], True), ([None, Ending.WON], True)],
)
def test_an_update_is_due_when_a_window_is_full_or_the_episode_has_ended(endings, due):
    made = player()
    found = window(*(step(made, 0.0, ending) for ending in endings), update_every=3)
    assert found.due == due
    found.take(valued=False)
    assert not found.due  # nothing is left
    assert found.take(valued=False) == ([], [])


def test_games_side_by_side_wait_for_each_other_and_come_in_the_order_of_the_seats():
    made = player()
    windows = Windows([made, made, made], CONFIG.model_copy(update={"update_every": 3}))
    first, second, third = step(made, 1.0, Ending.LOST), step(made, 2.0), step(made, 4.0, Ending.LOST)
    windows.add(1, second)
    windows.add(0, first)
    assert not windows.due
    windows.add(1, third)
    assert windows.due
    steps, returns = windows.take(valued=False)
    assert [transition.result.reward for transition in steps] == [1.0, 2.0, 4.0]
    assert returns == pytest.approx([1.0, 2.0 + 0.9 * 4.0, 4.0])


def test_losses_are_means_since_the_last_time():
    means = LossMeans()
    means.note(policy=1.0, value=4.0)
    means.note(policy=2.0)
    assert means.pop() == {"loss_policy": 1.5, "loss_value": 4.0, "loss_entropy": None, "loss_retriever": None}
    assert set(means.pop().values()) == {None}


def test_an_update_draws_as_from_torchs_own_seed():
    draws = []
    for seed in (seed_all, torch.manual_seed):
        seed(2**61 + 5)
        draws.append(torch.rand(9))
    assert torch.equal(*draws)


def test_training_mode_and_torchs_generator_are_put_back_also_after_a_fault():
    module, streams = torch.nn.Dropout().eval(), Streams(3)
    state, drawn = torch.random.get_rng_state(), []

    def fail() -> None:
        with training_mode(module, streams=streams, name="x"):
            assert module.training
            drawn.append(float(torch.rand(())))
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fail()
        assert not module.training
        assert torch.equal(torch.random.get_rng_state(), state)
    with training_mode(streams=Streams(3), name="x"):
        assert float(torch.rand(())) == drawn[0] != drawn[1]
