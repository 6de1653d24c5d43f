"""A tiny model is made of random plays and learns what was rewarded; it is written whole or not at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cbrcore import Action, AgentInput, Build, CbrError, Ending, StepResult
from cbrcore.testing import sample_observation

from cbr_llm.agent import LlmAgent
from cbr_llm.config import LlmConfig
from cbr_llm.plays import Example, discounted, play, with_cases
from cbr_llm.prompt import Prompt
from cbr_llm.tiny import (
    PROMPT_WEIGHT,
    Training,
    batch,
    fit,
    tiny_model,
    train_tiny,
    train_tokenizer,
    weighted_loss,
)

THINGS = ("cup", "plate", "apple", "pear", "towel", "sock")


class Kitchen:
    """Take the thing that is there, then put it on the rack, which is worth a point and the end."""

    handicaps: Mapping[str, Any] = {}

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def games(self, split: str) -> tuple[str, ...]:
        return THINGS

    def reset(self, game: str, seed: int) -> Any:
        self.thing, self.held, self.steps = game, False, 0
        return self._seen("")

    def step(self, action: Action) -> StepResult:
        self.steps += 1
        done = self.held and action.text == f"put {self.thing} on rack"
        self.held = self.held or action.text == f"take {self.thing}"
        ending = Ending.WON if done else Ending.TRUNCATED if self.steps == 12 else None
        return StepResult(self._seen(f"You {action.text}."), float(done), ending)

    def close(self) -> None: ...

    def _seen(self, feedback: str) -> Any:
        commands = [
            "look",
            f"put {self.thing} on rack" if self.held else f"take {self.thing}",
            f"wash {self.thing}",
        ]
        return sample_observation(
            feedback=feedback,
            description="A kitchen." if self.held else f"A kitchen. Here is a {self.thing}.",
            inventory=f"You carry a {self.thing}." if self.held else "You carry nothing.",
            admissible=tuple(Action(text, text) for text in sorted(commands)),
        )


def examples(plays: int = 30) -> list[Example]:
    rng = np.random.default_rng(0)
    return [
        example
        for thing in THINGS
        for number in range(plays)
        for example in play(Kitchen(), thing, number, 3, rng)
    ]


def test_a_step_weighs_as_much_as_the_reward_that_came_of_it() -> None:
    assert discounted([0, 0, 1, 0, 0.5, 0]) == [0.25, 0.5, 1, 0.25, 0.5, 0]
    assert discounted([-1, 0, 3]) == [0.25, 0.5, 1]
    assert discounted([]) == []


def test_a_random_play_gives_its_rewarded_steps_and_those_just_before() -> None:
    found = examples(5)
    assert {example.weight for example in found} <= {1.0, 0.5, 0.25}
    last = [example for example in found if example.rewarded]
    assert {example.command for example in last} == {f"put {thing} on rack" for thing in THINGS}
    assert all(example.weight == 1 for example in last)
    assert all(len(example.prompt.steps) <= 3 for example in found)


def test_half_of_the_examples_have_a_case_of_their_game() -> None:
    rng = np.random.default_rng(0)
    told = with_cases(examples(), rng)
    with_one = [example for example in told if example.prompt.cases]
    assert 0.4 < len(with_one) / len(told) < 0.6
    assert all(f"put {example.game} on rack" in example.prompt.cases[0] for example in with_one)


def test_the_loss_by_hand() -> None:
    """Uniform over V: log V, whatever the weights; a token of weight 0 does not count."""
    model = tiny_model(7, Training(width=8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    tokens = torch.tensor([[1, 2, 3], [4, 5, 0]])
    loss = weighted_loss(model, tokens, torch.tensor([[0.1, 0.1, 1.0], [0.1, 0.5, 0.0]]))
    assert loss.item() == pytest.approx(np.log(7), abs=1e-5)


def test_tokens_of_the_command_weigh_as_the_example_and_those_of_the_prompt_little() -> None:
    found = examples(3)
    tokenizer = train_tokenizer(found, 400)
    tokens, weights = batch(tokenizer, found[:4])
    assert tokens.shape == weights.shape
    for row, example in enumerate(found[:4]):
        command = tokenizer.encode(f" {example.command}\n")
        end = int((weights[row] > 0).sum())
        assert tokens[row, end - len(command) : end].tolist() == command
        assert set(weights[row, end - len(command) : end].tolist()) == {example.weight}
        assert weights[row, : end - len(command)].unique().tolist() == pytest.approx([PROMPT_WEIGHT])


@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns_what_was_rewarded(seed: int, tmp_path: Path) -> None:
    """Through the agent that will use it, for the things of its plays, the rewarded command and the one before it
    are the likeliest of three nearly everywhere."""
    found, training = examples(), Training(updates=120, words=400, width=64, seed=seed)
    tokenizer = train_tokenizer(found, training.words)
    torch.manual_seed(seed)
    model = tiny_model(len(tokenizer), training)
    fit(model, tokenizer, found, training)
    model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    assert sum(right_choices(LlmAgent(LlmConfig(model=str(tmp_path / "tiny")), Build()))) >= 10  # of 12; chance: 4


def right_choices(agent: LlmAgent) -> list[bool]:
    """Of each step to the goal of each game, whether the agent's likeliest command is the right one."""
    game, found = Kitchen(), []
    for thing in THINGS:
        seen, state = game.reset(thing, 0), agent.initial_state()
        for right in (f"take {thing}", f"put {thing} on rack"):
            (output,) = agent.policy([AgentInput(seen, state)])
            found.append(seen.admissible[int(output.logits.argmax())].text == right)
            state, seen = output.state, game.step(Action(right, right)).observation
    return found


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    with pytest.raises(CbrError, match=r"is there already\n.*rm -r"):
        train_tiny(tmp_path / "recipe.yaml", tmp_path / "tiny", Training())
    assert list(tmp_path.iterdir()) == [tmp_path / "tiny"]


def test_prompts_of_any_length_fit(tmp_path: Path) -> None:
    found = [Example("g", Prompt(sample_observation(description="A cup is here. " * 400)), "take cup", 1.0, True)]
    tokenizer = train_tokenizer(found, 300)
    tokens, _ = batch(tokenizer, found)
    assert tokens.shape[1] == 512
