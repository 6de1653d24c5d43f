"""n-step advantage actor-critic [P §5, App. A]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cbrcore.interfaces import PolicyOutput


def n_step_returns(rewards: Sequence[float], *, gamma: float, bootstrap: float) -> list[float]:
    """R_t = sum_{i=0}^{T-t-1} gamma^i r_{t+i} + gamma^{T-t} V(s_T), for t = 0 .. T-1.

    Args:
        rewards: r_t of T consecutive steps of one episode.
        bootstrap: V(s_T) of the observation after the last step; 0 if the game truly ended there. At a time
            limit the game would go on, so it is the value of the last observation.
    """
    following = bootstrap
    returns = []
    for reward in reversed(rewards):
        following = reward + gamma * following
        returns.append(following)
    return returns[::-1]


@dataclass(frozen=True)
class A2cLoss:
    """The three terms, each summed over the steps; `total` is what is minimised."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    steps: int

    @property
    def total(self) -> Tensor:
        return self.policy + self.value + self.entropy

    def means(self) -> dict[str, float]:
        """Each term per step."""
        terms = {"policy": self.policy, "value": self.value, "entropy": self.entropy}
        return {name: term.item() / self.steps for name, term in terms.items()}


def a2c_loss(
    outputs: Sequence[PolicyOutput],
    actions: Sequence[int],
    returns: Sequence[float],
    *,
    value_weight: float,
    entropy_weight: float,
) -> A2cLoss:
    """L_pi = -A log pi(a|s), L_v = w/2 (R - V)^2, L_e = eta sum pi log pi, each summed over the steps.

    The advantage A = R - V is a constant in L_pi.

    Args:
        outputs: the agent's logits [A] and value [] for each step, with gradients.
        actions: position of the executed action among the admissible ones.
        returns: R_t of each step.
    """
    log_probabilities = [torch.log_softmax(output.logits, dim=0) for output in outputs]  # each [A]
    taken = torch.stack([row[action] for row, action in zip(log_probabilities, actions, strict=True)])  # [n]
    values = torch.stack([output.value for output in outputs])  # [n]
    targets = torch.tensor(returns, dtype=values.dtype, device=values.device)  # [n]
    negative_entropy = torch.stack([(row.exp() * row).sum() for row in log_probabilities])  # [n]
    return A2cLoss(
        policy=-((targets - values).detach() * taken).sum(),
        value=value_weight * 0.5 * (targets - values).square().sum(),
        entropy=entropy_weight * negative_entropy.sum(),
        steps=len(actions),
    )
