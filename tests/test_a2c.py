"""n-step returns and the A2C losses against worked examples."""

from __future__ import annotations

import math

import pytest
import torch

from cbr_a2c.a2c import a2c_loss, n_step_returns
from cbrcore.interfaces import PolicyOutput


def test_returns_by_hand():
    # R_2 = 1 + 0.5*4 = 3;  R_1 = 0 + 0.5*3 = 1.5;  R_0 = 2 + 0.5*1.5 = 2.75
    assert n_step_returns([2, 0, 1], gamma=0.5, bootstrap=4) == [2.75, 1.5, 3.0]


def test_returns_equal_the_formula_written_out():
    rewards, gamma, value = [0.3, -1.0, 2.0, 0.0], 0.9, 1.7
    last = len(rewards)
    expected = [
        sum(gamma**i * rewards[t + i] for i in range(last - t)) + gamma ** (last - t) * value for t in range(last)
    ]
    assert n_step_returns(rewards, gamma=gamma, bootstrap=value) == pytest.approx(expected)


def test_no_steps_no_returns():
    assert n_step_returns([], gamma=0.9, bootstrap=3) == []


def test_losses_by_hand():
    # p = (3/4, 1/4), V = 1, R = 3: advantage 2
    logits = torch.tensor([math.log(3.0), 0.0], requires_grad=True)
    value = torch.tensor(1.0, requires_grad=True)
    loss = a2c_loss([PolicyOutput(logits, value)], [1], [3.0], value_weight=0.5, entropy_weight=0.1)
    assert loss.policy.item() == pytest.approx(-2 * math.log(0.25))
    assert loss.value.item() == pytest.approx(0.5 * 0.5 * 4)
    assert loss.entropy.item() == pytest.approx(0.1 * (0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert loss.total.item() == pytest.approx((loss.policy + loss.value + loss.entropy).item())


def test_advantage_is_a_constant_for_the_policy_and_the_value_learns_from_its_own_loss():
    logits = torch.zeros(2, requires_grad=True)
    value = torch.tensor(1.0, requires_grad=True)
    loss = a2c_loss([PolicyOutput(logits, value)], [0], [3.0], value_weight=0.5, entropy_weight=0.0)
    loss.total.backward()
    assert float(value.grad) == pytest.approx(0.5 * -(3 - 1))  # d/dV of 0.5 * 1/2 (R-V)^2
    assert logits.grad.tolist() == pytest.approx([-2 * 0.5, 2 * 0.5])  # -A (onehot - p)


def test_losses_sum_over_steps_with_different_numbers_of_actions():
    outputs = [PolicyOutput(torch.zeros(2), torch.tensor(0.0)), PolicyOutput(torch.zeros(4), torch.tensor(0.0))]
    loss = a2c_loss(outputs, [0, 3], [1.0, 1.0], value_weight=1.0, entropy_weight=1.0)
    assert loss.policy.item() == pytest.approx(math.log(2) + math.log(4))
    assert loss.entropy.item() == pytest.approx(-math.log(2) - math.log(4))


def test_value_of_a_time_limited_loop_tends_to_its_endless_value():
    """A loop with reward 1 and gamma 0.9 that is cut every 10 steps is worth 1/(1-0.9) = 10, not 6.5: the
    time limit is bootstrapped, only a true ending is not."""

    def learned_value(*, terminal: bool) -> float:
        value = torch.tensor(0.0, requires_grad=True)
        optimizer = torch.optim.Adam([value], lr=0.1)
        for _ in range(600):
            bootstrap = 0.0 if terminal else value.item()
            returns = n_step_returns([1.0] * 10, gamma=0.9, bootstrap=bootstrap)
            outputs = [PolicyOutput(torch.zeros(1), value) for _ in returns]
            loss = a2c_loss(outputs, [0] * 10, returns, value_weight=0.5, entropy_weight=0.0)
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
        return value.item()

    assert learned_value(terminal=False) == pytest.approx(10, abs=0.3)
    assert learned_value(terminal=True) < 6
