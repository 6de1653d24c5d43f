"""Refusing contexts that are not numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from cbrcore.errors import RunFailed


def finite(contexts: Tensor) -> Tensor:
    """The contexts [n, d] themselves.

    Raises:
        RunFailed: a value is NaN or infinite.
    """
    if not torch.isfinite(contexts).all():
        raise RunFailed("a context holds values that are not finite", hint="lower the retriever's learning rate")
    return contexts
