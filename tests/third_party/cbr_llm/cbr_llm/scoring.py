"""log p(command | prompt) under a causal language model: the fast way, and the obvious way that it equals.

P = tokens of the prompt, L = tokens of the longest command, A = commands, b = those of one batch, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

Tokens = Sequence[int]


@torch.no_grad()
def each_alone(model: Any, prompt: Tokens, commands: Sequence[Tokens]) -> Tensor:
    """[A]: each prompt + command goes through the model by itself, from its beginning.

    log p(c | x) = sum_i log p(c_i | x, c_1 .. c_{i-1}), and p(c_i | ...) is read at the token before c_i.
    """
    found = []
    for command in commands:
        tokens = torch.tensor([[*prompt, *command]], device=model.device)  # [1, P + n]
        log_p = model(input_ids=tokens).logits[0].float().log_softmax(dim=-1)  # [P + n, V]
        before = log_p[len(prompt) - 1 : -1]  # [n, V]: what each token of the command is predicted by
        found.append(before.gather(1, tokens[0, len(prompt) :, None]).sum())
    return torch.stack(found)


@torch.no_grad()
def shared_prefix(model: Any, prompt: Tokens, commands: Sequence[Tokens], batch_size: int) -> Tensor:
    """[A]: as `each_alone`, but the prompt goes through the model once; its keys and values serve all commands.

    A model that keeps anything else of what it has read than keys and values is asked for each command alone.
    """
    cache = DynamicCache(config=model.config)
    if not all(type(layer) is DynamicLayer for layer in cache.layers):  # a window, a state
        return each_alone(model, prompt, commands)
    tokens = torch.tensor([prompt], device=model.device)
    read = model(input_ids=tokens, use_cache=True, **{_cache_argument(model): cache})
    first = read.logits[0, -1].float().log_softmax(dim=-1)  # [V]
    starts = torch.tensor([command[0] for command in commands], device=model.device)
    found = [first[starts]]  # [A] of the first tokens
    rest = [
        _further_tokens(model, len(prompt), cache, commands[at : at + batch_size])
        for at in range(0, len(commands), batch_size)
    ]
    return found[0] + torch.cat(rest)


def _cache_argument(model: Any) -> str:
    """What the cache is called; transformers changed it in 5.24."""
    return "cache" if "cache" in signature(type(model).forward).parameters else "past_key_values"


def _further_tokens(model: Any, length: int, cache: DynamicCache, commands: Sequence[Tokens]) -> Tensor:
    """[b]: log-likelihood of all tokens but the first ones, given the prompt of `length` tokens in `cache`."""
    rows = [torch.tensor(command, device=model.device) for command in commands]
    tokens = pad_sequence(rows, batch_first=True)  # [b, L], zeros behind the shorter ones
    lengths = torch.tensor([len(row) for row in rows], device=model.device)  # [b]
    if tokens.shape[1] == 1:
        return torch.zeros(len(rows), device=model.device)
    given, asked = tokens[:, :-1], tokens[:, 1:]  # [b, L - 1] each
    steps = torch.arange(given.shape[1], device=model.device)
    real = steps[None] < lengths[:, None] - 1  # [b, L - 1]
    own = deepcopy(cache)  # the model adds to it
    own.batch_repeat_interleave(len(rows))
    log_p = model(
        input_ids=given,
        attention_mask=torch.cat([torch.ones(len(rows), length, device=model.device), real], dim=1).long(),
        position_ids=(length + steps).expand(len(rows), -1),
        **{_cache_argument(model): own},
    ).logits.float().log_softmax(dim=-1)  # [b, L - 1, V]  # fmt: skip
    return (log_p.gather(2, asked[:, :, None]).squeeze(2) * real).sum(dim=1)
