"""Language models of which everything is known, as folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = (
    *("<unk>", ">", "take", "cup", "look", "put", "on", "rack", "apple", "wash", "In", "a", "similar"),
    *("situation", "was", "rewarded", "You", "see", "kitchen", "The", "is", "table", "carry", "nothing"),
    *('"', ".", "A"),
)


def save_tokenizer(folder: Path, words: Sequence[str] = WORDS) -> None:
    """A word each is a token; the first one stands for all others."""
    tokenizer = Tokenizer(WordLevel({word: row for row, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=words[0]).save_pretrained(folder)


def random_llama(folder: Path, *, window: int = 256, heads: int = 2) -> Path:
    """Two layers of noise, whose weights are large enough that every token matters."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=heads,
        max_position_embeddings=window,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def random_gpt2(folder: Path) -> Path:
    """The same with learned positions and tied weights."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=2, n_positions=256, initializer_range=0.5
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def bigram(folder: Path, words: Sequence[str], following: Mapping[str, Mapping[str, float]]) -> Path:
    """p(next | word) as it is written; what is not written shares the rest.

    GPT-2 whose layers add nothing: a word is its unit vector e_i, LayerNorm(e_i) is undone by the weights behind
    it, and the head holds log p. d = number of words; the variance of e_i is (1 - 1/d) / d.
    """
    d = len(words)
    config = GPT2Config(
        vocab_size=d,
        n_embd=d,
        n_layer=1,
        n_head=1,
        n_positions=64,
        tie_word_embeddings=False,
        layer_norm_epsilon=0.0,
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.transformer.wte.weight.copy_(torch.eye(d))
        model.transformer.ln_f.weight.fill_(((1 - 1 / d) / d) ** 0.5)
        model.transformer.ln_f.bias.fill_(1 / d)
        for row, word in enumerate(words):
            model.lm_head.weight[:, row] = torch.tensor(probabilities(words, following.get(word, {}))).log()
    model.save_pretrained(folder)
    save_tokenizer(folder, words)
    return folder


def probabilities(words: Sequence[str], written: Mapping[str, float]) -> list[float]:
    """Of each word; those that are not written share what is left."""
    rest = (1 - sum(written.values())) / (len(words) - len(written))
    return [written.get(word, rest) for word in words]


@pytest.fixture(scope="session")
def models() -> SimpleNamespace:
    """The makers above; each takes the folder to write, and gives it back."""
    return SimpleNamespace(
        WORDS=WORDS, save_tokenizer=save_tokenizer, llama=random_llama, gpt2=random_gpt2, bigram=bigram
    )


@pytest.fixture(scope="session")
def llama(models: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.llama(tmp_path_factory.mktemp("llama"))
