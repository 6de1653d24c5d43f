"""How many of the possible codes are in use, over the recent contexts of training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def remember(recent: Tensor, seen: Tensor, codes: Tensor) -> None:
    """Write codes [n, D] into the ring `recent` [window, D]; `seen` counts all that were ever written."""
    codes = codes[-len(recent) :]
    rows = (int(seen) + torch.arange(len(codes), device=codes.device)) % len(recent)
    recent[rows] = codes
    seen += len(codes)


def code_figures(recent: Tensor, seen: Tensor, levels: int) -> Mapping[str, float]:
    """Over the codes in the ring: the share of the `levels` in use, and the perplexity (the number of equally
    often used ones that would be as varied), each the mean over the D numbers of a code."""
    codes = recent[: min(int(seen), len(recent))]  # [n, D]
    if not len(codes):
        return {"code_usage": 0.0, "code_perplexity": 0.0}
    parts = codes.shape[1]
    places = codes + levels * torch.arange(parts, device=codes.device)  # each part counts for itself
    counts = torch.bincount(places.flatten(), minlength=parts * levels).view(parts, levels)
    shares = counts.double() / len(codes)  # [D, levels]
    entropy = torch.special.entr(shares).sum(dim=1)  # [D]
    return {"code_usage": float((shares > 0).double().mean()), "code_perplexity": float(entropy.exp().mean())}
