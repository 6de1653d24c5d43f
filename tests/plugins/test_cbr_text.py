"""The Text agent: reading, caching, gradients, batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cbr_nn.words import sentences, words
from cbr_text.agent import TextAgent
from cbr_text.config import TextConfig
from cbr_text_encoders.config import UntrainedConfig
from cbr_text_encoders.untrained import UntrainedEncoder
from cbrcore import Build, CbrError
from cbrcore.interfaces import AgentInput
from cbrcore.testing import AgentSuite
from cbrcore.types import Action, Observation, StateGraph

TEXTS = ("You pick up the red cap. A hat rack is here!\nYou carry nothing.", "Taken.", "")
COMMANDS = ("look", "take red cap", "put red cap on hat rack")


def agent(tmp_path: Path, unit: str = "sentence", hidden: int = 8, **settings) -> TextAgent:
    encoder = UntrainedEncoder(UntrainedConfig(dim=16), Build(cache_dir=tmp_path))
    torch.manual_seed(0)
    build = Build(cache_dir=tmp_path, text_encoder=encoder)
    return TextAgent(TextConfig(hidden=hidden, unit=unit, **settings), build).eval()


def seen(text: str, commands: tuple[str, ...] = COMMANDS) -> Observation:
    return Observation(text, "", "", tuple(Action(c, c) for c in commands), StateGraph(()))


def inputs(a: TextAgent) -> list[AgentInput]:
    generator = torch.Generator().manual_seed(1)
    return [
        AgentInput(seen(text, COMMANDS[: i + 1]), torch.randn(16, generator=generator))
        for i, text in enumerate(TEXTS)
    ]


class TestBySentences(AgentSuite):
    def make(self, build: Build) -> TextAgent:
        return TextAgent(TextConfig(hidden=8, unit="sentence"), build)


class TestWholeObservations(AgentSuite):
    def make(self, build: Build) -> TextAgent:
        return TextAgent(TextConfig(hidden=8, unit="observation"), build)


def test_words_keep_their_order_and_sentences_their_words():
    assert words("Don't take the BBQ, twice!") == ["don't", "take", "the", "bbq", ",", "twice", "!"]
    assert words("") == ["."]
    assert sentences("A b. C d!\n\nE f\nA b.") == ["A b.", "C d!", "E f"]
    assert sentences("  ") == [""]


@pytest.mark.parametrize("unit", ["sentence", "observation"])
def test_shapes_for_each_input(tmp_path, unit):
    a = agent(tmp_path, unit)
    outputs = a.policy(inputs(a))
    assert [tuple(o.logits.shape) for o in outputs] == [(1,), (2,), (3,)]
    assert all(o.value.shape == () and o.state.shape == (16,) and not o.state.requires_grad for o in outputs)
    assert torch.equal(a.initial_state(), torch.zeros(16))
    assert "project.bias" not in a.state_dict(), "frozen vectors are projected linearly"


@pytest.mark.parametrize("unit", ["sentence", "observation"])
def test_a_batch_gives_what_its_inputs_give_alone(tmp_path, unit):
    a = agent(tmp_path, unit)
    for together, item in zip(a.policy(inputs(a)), inputs(a), strict=True):
        alone = a.policy([item])[0]
        torch.testing.assert_close(together.logits, alone.logits, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(together.value, alone.value, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(together.state, alone.state, atol=1e-6, rtol=1e-5)


def test_acting_from_the_cache_equals_training_forward(tmp_path):
    a = agent(tmp_path)
    with torch.no_grad():
        first, cached = a.policy(inputs(a)), a.policy(inputs(a))
    for x, y, z in zip(first, cached, a.policy(inputs(a)), strict=True):
        assert torch.equal(x.logits, y.logits)
        torch.testing.assert_close(x.logits, z.logits)


def test_the_cache_forgets_when_the_parameters_change(tmp_path):
    a = agent(tmp_path)
    with torch.no_grad():
        before = a.policy(inputs(a))[2].logits.clone()
        a.project.weight.mul_(3.0)
        after = a.policy(inputs(a))[2].logits
    torch.testing.assert_close(after, a.policy(inputs(a))[2].logits)
    assert not torch.allclose(before, after)


def test_every_parameter_receives_a_gradient(tmp_path):
    a = agent(tmp_path)
    sum(o.logits.square().sum() + o.value.square() for o in a.policy(inputs(a))).backward()
    assert [name for name, p in a.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_the_state_carries_what_was_seen_before(tmp_path):
    a = agent(tmp_path)
    start = a.initial_state()
    after_one = a.policy([AgentInput(seen(TEXTS[0]), start)])[0].state
    fresh, later = (a.policy([AgentInput(seen(TEXTS[1]), state)])[0].logits for state in (start, after_one))
    assert not torch.allclose(fresh, later)


def test_long_texts_are_cut_after_the_newest_words(tmp_path):
    a = agent(tmp_path, "observation", max_words=3)
    cut, whole = (a.policy([AgentInput(seen(t), a.initial_state())])[0] for t in ("a b c d e f", "a b c"))
    torch.testing.assert_close(cut.logits, whole.logits)


def test_its_weights_are_on_the_device_that_was_asked_for(tmp_path):
    encoder = UntrainedEncoder(UntrainedConfig(dim=16), Build(cache_dir=tmp_path))
    a = TextAgent(TextConfig(hidden=8), Build(cache_dir=tmp_path, text_encoder=encoder, device="meta"))
    assert {each.device.type for each in a.parameters()} == {"meta"}


def test_a_missing_text_encoder_is_named(tmp_path):
    with pytest.raises(CbrError, match="text_encoder"):
        TextAgent(TextConfig(), Build(cache_dir=tmp_path))
