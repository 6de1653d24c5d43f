"""Rows in groups of different sizes as one tensor: padded for attention, packed for a GRU.

torch's `pad_sequence` and `pack_sequence` take a list; their backward pass copies the whole batch once per group.
Here the rows come in one tensor and are moved once: an update of a graph agent takes half the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


def pad(rows: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """([n, longest, w] with zeros at the end, [n, longest] True where a row is real).

    Args:
        rows: [sum of sizes, w], group by group.
        sizes: of the n groups.
    """
    real = np.arange(max(sizes)) < np.array(sizes)[:, None]  # [n, longest]
    padded = rows.new_zeros(real.size, rows.shape[1])
    padded = padded.index_copy(0, torch.from_numpy(real.ravel().nonzero()[0]).to(rows.device), rows)
    return padded.view(*real.shape, rows.shape[1]), torch.from_numpy(real).to(rows.device)


def unpad(padded: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """The n groups, each [size, w], of [n, longest, w]."""
    real = np.arange(padded.shape[1]) < np.array(sizes)[:, None]  # [n, longest]
    rows = padded.flatten(0, 1).index_select(0, torch.from_numpy(real.ravel().nonzero()[0]).to(padded.device))
    groups: tuple[Tensor, ...] = torch.split(rows, list(sizes))
    return groups


def pack(rows: Tensor, sizes: Sequence[int]) -> PackedSequence:
    """The groups as sequences, for a recurrent layer; arguments as for `pad`, sizes at least 1."""
    size = np.array(sizes)
    longest_first = np.argsort(-size, kind="stable")
    start = np.cumsum(size) - size
    step = np.arange(size.max())[:, None]
    running = step < size[longest_first]  # [longest, n]
    order = (start[longest_first] + step)[running]  # first rows of all groups, then second rows, ...
    return PackedSequence(
        rows.index_select(0, torch.from_numpy(order).to(rows.device)),
        torch.from_numpy(running.sum(axis=1)),
        torch.from_numpy(longest_first).to(rows.device),
    )
