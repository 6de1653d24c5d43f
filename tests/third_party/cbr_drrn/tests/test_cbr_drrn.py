"""Agent and learner keep the contracts of their kinds, and compute what the papers say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from cbr_drrn.agent import DrrnAgent
from cbr_drrn.config import DrrnConfig, DrrnLearnerConfig
from cbr_drrn.learner import DrrnLearner, remembered
from cbr_drrn.loss import contrastive_loss, td_targets
from cbr_drrn.reading import Reading, numbers, reading
from cbr_drrn.replay import Replay, Ring, Step
from cbr_drrn.retrieving import RetrieverUpdates

from cbrcore import (
    AgentInput,
    Build,
    Candidate,
    CaseBasedReasoner,
    CbrError,
    Decision,
    Ending,
    Match,
    RunFailed,
    StepResult,
    Stopwatch,
    Streams,
    Trace,
    TrainingConfig,
    Transition,
)
from cbrcore.testing import GRAPHS, PUT, TAKE, AgentSuite, LearnerSuite, sample_observation, sample_player

SEEN = sample_observation()


def step(number: int, reward: float = 0.0) -> Step:
    """A step that can be told from others."""
    return Step(Reading("", "here", "", (f"go {number}",)), reward, None)


def taken(action: Any = PUT, reward: float = 0.0, ending: Ending | None = None, **after: Any) -> Transition:
    """An executed action of the agent's own."""
    result = StepResult(sample_observation(GRAPHS[1], **after), reward, ending)
    return Transition(SEEN, Decision(action, "agent"), result)


def a_build() -> Build:
    torch.manual_seed(0)
    return Build()


def small(build: Build, **settings: Any) -> DrrnAgent:
    return DrrnAgent(DrrnConfig.model_validate({"embedding": 8, "hidden": 8, "buckets": 64, **settings}), build)


# by hand


def test_targets_by_hand():
    """gamma 1/2: 1 + 1/2 max(3, 5) = 3.5; 0 + 1/2 max(1, -2, 4) = 2; where the game ended, 2 alone."""
    following = [torch.tensor([3.0, 5.0]), torch.tensor([1.0, -2.0, 4.0]), None]
    assert td_targets([1, 0, 2], following, gamma=0.5).tolist() == [3.5, 2, 2]


def test_a_best_next_action_that_is_bad_counts_as_it_is():
    assert td_targets([0], [torch.tensor([-3.0, -1.0])], gamma=1.0).tolist() == [-1]


def test_contrastive_loss_by_hand():
    """Rewarded at similarity 0.8: 0.2^2 / 2; failed there with margin 0.5: 0.3^2 / 2; failed at 0.4: 0."""
    found = contrastive_loss(torch.tensor([0.8, 0.8, 0.4]), torch.tensor([0.0, 1.0, 1.0]), margin=0.5)
    torch.testing.assert_close(found, torch.tensor([0.02, 0.045, 0.0]))


def test_the_policy_is_a_softmax_of_q_and_the_value_its_largest():
    agent = small(a_build(), temperature=0.5)
    (values,) = agent.q_values([reading(SEEN)])
    (output,) = agent.policy([AgentInput(SEEN)])
    torch.testing.assert_close(output.logits.softmax(0), (2 * values).softmax(0))
    assert output.value == values.max()


# what is remembered


def test_what_follows_an_ending_is_nothing_but_a_time_limit_is_none():
    texts = ("look", PUT.text, TAKE.text)
    going = remembered(taken(reward=1.0), win_bonus=5)
    assert (going.before.actions, going.reward, going.after.actions) == ((PUT.text,), 1.0, texts)
    assert remembered(taken(ending=Ending.TRUNCATED), 5).after.actions == texts
    assert remembered(taken(ending=Ending.LOST), 5) == going._replace(reward=0.0, after=None)
    assert remembered(taken(reward=1.0, ending=Ending.WON), 5).reward == 6
    assert remembered(taken(admissible=()), 5).after is None


def test_the_oldest_step_leaves_a_full_ring():
    ring = Ring(3)
    for number in range(5):
        ring.add(step(number))
    assert sorted(each.before.actions[0] for each in ring.steps) == ["go 2", "go 3", "go 4"]


def test_rewarded_steps_are_drawn_as_often_as_asked_for():
    replay = Replay(100, rewarded_share=0.25)
    for number in range(100):
        replay.add(step(number, reward=float(number == 7)))
    rng = np.random.default_rng(0)
    drawn = [replay.draw(8, rng) for _ in range(100)]
    assert all(sum(each.reward > 0 for each in batch[:2]) == 2 for batch in drawn)
    assert len({each.before.actions for batch in drawn for each in batch[2:]}) > 90  # the others are uniform
    uniform = Replay(100, rewarded_share=0.0)
    for number in range(100):
        uniform.add(step(number, reward=float(number == 7)))
    assert sum(each.reward > 0 for _ in range(100) for each in uniform.draw(8, rng)) < 30


def test_without_a_reward_all_are_drawn_alike():
    replay = Replay(10, rewarded_share=0.5)
    replay.add(step(1))
    assert replay.draw(4, np.random.default_rng(0)) == [step(1)] * 4


def test_a_replay_memory_survives_as_bytes_with_its_place_in_the_ring():
    replay, other = Replay(3, 0.5), Replay(3, 0.5)
    for number in range(4):
        replay.add(remembered(taken(reward=number / 3, feedback=f"ü {number}"), 0))
    replay.add(step(9, reward=1.0))
    other.load(replay.tensor())
    assert (other.every.oldest, other.rewarded.oldest) == (2, 1)
    for memory in (replay, other):
        memory.add(step(10, reward=2.0))
    assert (other.every.steps, other.rewarded.steps) == (replay.every.steps, replay.rewarded.steps)


def test_words_have_the_same_numbers_everywhere():
    assert numbers("Take the red cup!", 8000, 300) == (2620, 7079, 5456, 4389, 5972)
    assert numbers("take THE red cup !", 8000, 2) == (4389, 5972)
    assert numbers(" ", 8000, 300) == (0,)


# the suites


class TestAgent(AgentSuite):
    def make(self, build: Build) -> DrrnAgent:
        return small(build)

    def test_q_depends_on_each_of_the_texts_and_on_the_action(self, build: Build) -> None:
        agent = self.make(build)
        asked = reading(SEEN)
        (before,) = agent.q_values([asked])
        for name in ("feedback", "description", "inventory"):
            assert not torch.equal(agent.q_values([asked._replace(**{name: "something else"})])[0], before)
        assert len(before.unique()) == len(asked.actions)


class TestLearner(LearnerSuite):
    settings: Mapping[str, Any] = MappingProxyType({})

    def make(self, build: Build) -> DrrnLearner:
        return DrrnLearner(DrrnLearnerConfig.model_validate({"batch": 4, **self.settings}), build)

    def player(self, build: Build) -> CaseBasedReasoner:
        torch.manual_seed(0)
        return CaseBasedReasoner(small(build), sample_player().retriever)

    def test_it_learns_what_is_worth_a_point(self, build: Build) -> None:
        """To put the cup on the rack, in `SampleGame`: Q of it becomes 1, that of others gamma."""
        learner, player, streams = self.make(build), self.player(build), Streams(0)
        learner.begin([player], self.training, streams, Stopwatch())
        for _ in range(30):
            self.play(learner, player, streams)
        (values,) = player.agent.q_values([reading(SEEN)])
        look, put, take = values.tolist()
        assert put == pytest.approx(1, abs=0.1)
        assert max(look, take) == pytest.approx(self.training.gamma, abs=0.1)
        assert learner.metrics()["replay_steps"] > 180

    def test_another_agent_is_refused_with_what_to_write(self, build: Build) -> None:
        with pytest.raises(CbrError, match="cbr_drrn/drrn") as refused:
            self.make(build).begin([sample_player()], self.training, Streams(0), Stopwatch())
        assert "agent: {use: cbr_drrn/drrn}" in str(refused.value)

    def test_an_update_that_is_not_finite_is_skipped_and_ten_end_the_run(self, build: Build) -> None:
        learner, player, streams = self.make(build), self.player(build), Streams(0)
        learner.begin([player], replace_every(self.training, 1), streams, Stopwatch())
        before = [each.clone() for each in player.agent.parameters()]
        for _ in range(4):
            learner.took_step(0, taken(reward=float("inf")))
        for _ in range(9):
            learner.took_step(0, taken(reward=float("inf")))
            learner.round_of_steps_done()
        learner.took_step(0, taken(reward=float("inf")))
        with pytest.raises(RunFailed, match="learning rate"):
            learner.round_of_steps_done()
        assert learner.skipped == 10
        assert all(map(torch.equal, before, player.agent.parameters()))


class TestLearnerWithTarget(TestLearner):
    settings = MappingProxyType({"target_every": 3, "rewarded_share": 0.5})

    def test_the_target_stays_until_it_is_time(self, build: Build) -> None:
        learner, player, streams = self.make(build), self.player(build), Streams(0)
        learner.begin([player], replace_every(self.training, 1), streams, Stopwatch())

        def behind() -> bool:
            pairs = zip(learner.target.parameters(), player.agent.parameters(), strict=True)
            return not all(torch.equal(theirs, mine) for theirs, mine in pairs)

        for _ in range(4):
            learner.took_step(0, taken(reward=1.0))
        seen = []
        for _ in range(6):
            learner.took_step(0, taken(reward=1.0))
            learner.round_of_steps_done()
            seen.append(behind())
        assert seen == [True, True, False, True, True, False]


def replace_every(training: TrainingConfig, steps: int) -> TrainingConfig:
    return training.model_copy(update={"update_every": steps})


# the retriever


@pytest.mark.parametrize(("reward", "nearer"), [(1.0, True), (0.0, False)], ids=["rewarded", "failed"])
def test_a_context_comes_nearer_to_a_key_that_was_right_and_leaves_one_that_was_wrong(reward: float, nearer: bool):
    retriever = sample_player().retriever
    assert retriever is not None
    training = TrainingConfig(retriever_learning_rate=0.01, margin=1.0)
    learning = RetrieverUpdates(retriever, training, Streams(0))
    key = retriever.keys(GRAPHS[0], [("cup", "table")])[0]
    reused = reuse_of(key, reward)

    def similarity() -> float:
        context = retriever.encoder.contexts_of_pairs([(GRAPHS[0], ("cup", "rack"))])
        return retriever.quantizer.similarity(context, key[None]).item()

    before = similarity()
    for _ in range(20):
        learning.add(reused)
        assert learning.update() is not None
    assert (similarity() > before) == nearer
    assert learning.update() is None  # nothing new
    learning.add(replace(reused, result=replace(reused.result, rescored=True)))
    learning.add(taken())
    assert learning.update() is None  # neither is one to learn from


def reuse_of(key: torch.Tensor, reward: float) -> Transition:
    """A step whose action came from a case."""
    match = Match(None, 0.9)  # type: ignore[arg-type]
    chosen = Candidate(PUT, match, ("cup", "rack"), "admissible")
    trace = Trace(AgentInput(SEEN), GRAPHS[0], key)
    return Transition(SEEN, Decision(PUT, "reuse", (chosen,), chosen), StepResult(SEEN, reward), trace)
