"""Trains a tiny causal language model on examples of random plays: reward-weighted imitation.

It is no language model to speak of (two layers, a few hundred thousand parameters, a minute or two on a core): it
knows the words of these games, and which commands earned something where.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cbrcore import CbrError, Streams, derive_seed
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from cbr_llm.config import TEMPLATE
from cbr_llm.model import NOTE
from cbr_llm.plays import Example, examples_of, texts, with_cases

BEGIN, UNKNOWN = "<s>", "<unk>"
LONGEST = 512
PROMPT_WEIGHT = 0.1
"""Of the prompt's own tokens in the loss, so that the words are learned too."""


@dataclass(frozen=True)
class Training:
    """How the model is made.

    Attributes:
        plays: random plays of each training game.
        words: size of the vocabulary, at most.
    """

    plays: int = 20
    updates: int = 300
    seed: int = 0
    words: int = 2000
    width: int = 128
    layers: int = 2
    batch_size: int = 16
    learning_rate: float = 2e-3


def train_tiny(recipe: Path, out: Path, training: Training) -> str:
    """Play, train, and write the model's folder; what it was trained on, in words.

    Raises:
        CbrError: the folder is there, the recipe is wrong, or nothing was rewarded in any play.
    """
    if os.path.lexists(out):
        raise CbrError(f"{out} is there already", hint=f"Type: rm -r {out}; or name another folder with --out")
    examples, told = examples_of(str(recipe), training.plays, training.seed)
    if not examples:
        raise CbrError(f"no step was rewarded in {told}", hint="raise --plays")
    tokenizer = train_tokenizer(examples, training.words)
    torch.manual_seed(derive_seed(training.seed, "tiny-llm weights"))
    model = tiny_model(len(tokenizer), training)
    loss = fit(model, tokenizer, examples, training)
    note = f"{told}: {len(examples)} steps, each as much as the reward that came of it, {training.updates} updates"
    _write(model, tokenizer, out, note)
    return (
        f"{sum(each.numel() for each in model.parameters()):,} parameters, trained on {note}, last loss {loss:.2f}"
    )


def train_tokenizer(examples: Sequence[Example], words: int) -> Any:
    """Byte-pair encoding of what was seen and could be done."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words,
        special_tokens=[BEGIN, UNKNOWN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    seen = {texts(example.prompt.observation): None for example in with_cases(examples, np.random.default_rng(0))}
    tokenizer.train_from_iterator(seen, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=BEGIN, unk_token=UNKNOWN)


def tiny_model(words: int, training: Training) -> Any:
    """Llama's architecture, very small, with fresh weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words,
        hidden_size=training.width,
        intermediate_size=4 * training.width,
        num_hidden_layers=training.layers,
        num_attention_heads=4,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config)


def fit(model: Any, tokenizer: Any, examples: Sequence[Example], training: Training) -> float:
    """Train; the mean loss of the last tenth of the updates."""
    rng = Streams(training.seed).numpy("tiny-llm batches")
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, training.learning_rate, total_steps=training.updates, pct_start=0.1
    )
    losses = []
    for _ in range(training.updates):
        chosen = [examples[row] for row in rng.integers(len(examples), size=training.batch_size)]
        loss = weighted_loss(model, *batch(tokenizer, with_cases(chosen, rng)))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def batch(tokenizer: Any, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Tokens [b, n], and the weight [b, n] of each as something to predict; 0 where a row has ended."""
    rows, weights = [], []
    for example in examples:
        prompt = tokenizer.encode(example.prompt.text(TEMPLATE))
        command = tokenizer.encode(f" {example.command}\n", add_special_tokens=False)
        prompt = prompt[-(LONGEST - len(command)) :]
        rows.append(torch.tensor([*prompt, *command]))
        weights.append(torch.tensor([PROMPT_WEIGHT] * len(prompt) + [example.weight] * len(command)))
    return pad_sequence(rows, batch_first=True), pad_sequence(weights, batch_first=True)


def weighted_loss(model: Any, tokens: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean of -log p of each token but the first."""
    logits = model(input_ids=tokens).logits[:, :-1]  # [b, n - 1, V]
    losses = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    asked = weights[:, 1:].flatten()
    return (losses * asked).sum() / asked.sum()


def _write(model: Any, tokenizer: Any, out: Path, note: str) -> None:
    """The whole folder or nothing."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    unfinished = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    (unfinished / NOTE).write_text(json.dumps({"trained_on": note}, indent=1))
    os.replace(unfinished, out)
