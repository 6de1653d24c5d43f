"""Scores of commands."""

from __future__ import annotations

from torch import nn


def command_scorer(parts: int, width: int) -> nn.Sequential:
    """[..., parts * width] -> [..., 1]: the MLP that scores a command from `parts` vectors side by side."""
    return nn.Sequential(nn.Linear(parts * width, width), nn.ReLU(), nn.Linear(width, 1))
