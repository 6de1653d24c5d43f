"""What comes of a step: by hand, against a slow twin on whole episodes, and across a resume."""

from __future__ import annotations

import pytest
import toy_run
from hypothesis import given
from hypothesis import strategies as st
from parts import act, observation

from cbr_a2c.config import A2cConfig
from cbr_a2c.learner import A2cLearner
from cbr_a2c.outcomes import Outcomes
from cbrcore.types import Decision, Ending, StepResult, Transition

LOOK = act("look")
HERE = observation(LOOK)


def step(reward: float, ending: Ending | None = None) -> Transition:
    return Transition(HERE, Decision(LOOK, "agent"), StepResult(HERE, reward, ending))


def episode(rewards: list[float], ending: Ending = Ending.TRUNCATED) -> list[Transition]:
    return [*(step(reward) for reward in rewards[:-1]), step(rewards[-1], ending)]


def told(outcomes: Outcomes) -> list[float]:
    return [each.reward for each in outcomes.take()]


def test_an_outcome_is_the_sum_of_three_rewards_by_hand():
    """0 0 1 | 0 0: the first three earn the 1 within three steps, the last two nothing."""
    outcomes, steps = Outcomes(1, 3), episode([0.0, 0.0, 1.0, 0.0, 0.0])
    number, known = {id(each): at for at, each in enumerate(steps)}, []
    for each in steps:
        outcomes.add(0, each)
        known.append([(number[id(one.step)], one.reward, one.failed) for one in outcomes.take()])
    assert known == [
        [],
        [],
        [(0, 1.0, False)],
        [(1, 1.0, False)],
        [(2, 1.0, False), (3, 0.0, True), (4, 0.0, True)],
    ]


def test_a_loss_after_a_reward_counts_too():
    outcomes = Outcomes(1, 2)
    for each in episode([1.0, -1.0, -2.0, 3.0]):
        outcomes.add(0, each)
    assert [(one.reward, one.failed) for one in outcomes.take()] == [
        (0.0, True),
        (-3.0, True),
        (1.0, False),
        (3.0, False),
    ]


@pytest.mark.parametrize("ending", list(Ending))
def test_an_episodes_end_is_the_end_of_every_outcome(ending):
    outcomes = Outcomes(1, 9)
    for each in episode([0.0, 2.0], ending):
        outcomes.add(0, each)
    assert told(outcomes) == [2.0, 2.0]
    outcomes.add(0, step(5.0, ending))  # another episode
    assert told(outcomes) == [5.0]
    assert told(outcomes) == []


def test_with_one_step_every_outcome_is_known_at_once():
    outcomes = Outcomes(1, 1)
    for reward in (0.0, 1.0, -1.0):
        outcomes.add(0, step(reward))
        assert told(outcomes) == [reward]


REWARDS = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.0, 1.0, 2.0]), min_size=1, max_size=12)


def slowly(rewards: list[float], steps: int) -> list[float]:
    """Of a whole episode, at its end."""
    return [sum(rewards[at : at + steps]) for at in range(len(rewards))]


@given(st.lists(st.lists(REWARDS, min_size=1, max_size=3), min_size=1, max_size=3), st.integers(1, 6), st.data())
def test_outcomes_taken_window_by_window_are_those_of_the_whole_episodes(rounds, steps, data):
    """Rounds of episodes, one in each seat, in step, and taken at any moments: each step has its outcome once, as
    a look at the whole episode tells it; and at the end of a round none waits."""
    outcomes = Outcomes(3, steps)
    for episodes in rounds:
        played = [episode(rewards) for rewards in episodes]
        found: dict[int, float] = {}
        for at in range(max(map(len, played))):
            for seat, transitions in enumerate(played):
                if at < len(transitions):
                    outcomes.add(seat, transitions[at])
            if data.draw(st.booleans()):
                found |= _once(outcomes, found)
        found |= _once(outcomes, found)
        wanted = {
            id(transition): outcome
            for rewards, transitions in zip(episodes, played, strict=True)
            for transition, outcome in zip(transitions, slowly(rewards, steps), strict=True)
        }
        assert found == pytest.approx(wanted)
        assert "0 waiting" in repr(outcomes)


def _once(outcomes: Outcomes, before: dict[int, float]) -> dict[int, float]:
    taken = outcomes.take()
    found = {id(one.step): one.reward for one in taken}
    assert len(found) == len(taken)
    assert found.keys().isdisjoint(before)
    return found


def test_outcomes_come_in_the_order_of_the_seats_the_oldest_step_first():
    outcomes = Outcomes(2, 2)
    for seat, reward in ((1, 10.0), (0, 1.0), (1, 20.0), (0, 2.0), (0, 4.0), (1, 40.0)):
        outcomes.add(seat, step(reward))
    assert told(outcomes) == [3.0, 6.0, 30.0, 60.0]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("stop_after", [6, 11, 16])
def test_a_run_that_was_stopped_and_resumed_equals_one_that_was_not(tmp_path, monkeypatch, stop_after, num_envs):
    """Windows of four steps, outcomes of seven: many steps wait, but none where a checkpoint is taken."""
    monkeypatch.setattr(toy_run, "A2cLearner", lambda: A2cLearner(A2cConfig(outcome_steps=7)))
    toy_run.check_resuming(tmp_path, stop_after, num_envs=num_envs)
