"""Random plays of a recipe's training games, as texts for a language model to learn from.

What is learned is what earned something: the steps of a random play weigh as much as the reward that came of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from cbrcore import Build, Environment, Observation, Streams, cache_dir, load_plugins, load_recipe

from cbr_llm.config import CASE, LlmConfig
from cbr_llm.prompt import Prompt, Step, step_of

DISCOUNT = 0.5
"""Of the reward, for each step that it came later."""
LEAST = 0.2
"""Steps that weigh less than this are no examples."""


@dataclass(frozen=True)
class Example:
    """A step: the prompt as the agent would have had it, the command, and its weight in (0, 1]."""

    game: str
    prompt: Prompt
    command: str
    weight: float
    rewarded: bool


def discounted(rewards: Sequence[float]) -> list[float]:
    """Of each step the greatest of DISCOUNT^k r_{t+k}, where rewards count as at most 1, and losses as 0."""
    following, found = 0.0, []
    for reward in reversed(rewards):
        following = max(min(max(reward, 0.0), 1.0), DISCOUNT * following)
        found.append(following)
    return found[::-1]


def play(environment: Environment, game: str, seed: int, history: int, rng: np.random.Generator) -> list[Example]:
    """One random play; its steps of at least `LEAST`."""
    seen, steps, done = environment.reset(game, seed), list[Step](), list[tuple[Prompt, str, float]]()
    while seen.admissible:
        action = seen.admissible[rng.integers(len(seen.admissible))]
        result = environment.step(action)
        done.append((Prompt(seen, steps=tuple(steps[-history:])), action.text, result.reward))
        steps.append(step_of(seen))
        seen = result.observation
        if result.ending is not None:
            break
    weights = discounted([reward for _, _, reward in done])
    return [
        Example(game, prompt, command, weight, reward > 0)
        for (prompt, command, reward), weight in zip(done, weights, strict=True)
        if weight >= LEAST
    ]


def examples_of(recipe: str, plays: int, seed: int) -> tuple[list[Example], str]:
    """The examples of random plays of the training games, and what these were, in words.

    Raises:
        CbrError: something is wrong with the recipe or its games.
    """
    read = load_recipe(recipe, registry=(registry := load_plugins().registry))
    part = read.environment
    build = Build(seed=seed, recipe_dir=read.directory, cache_dir=cache_dir())
    environment: Environment = registry.find("environment", part.use).load_factory()(part.settings, build)
    try:
        games = environment.games("train")
        found = list(_all_plays(environment, games, plays, seed))
    finally:
        environment.close()
    return found, f"{plays} random plays of each of {len(games)} training games of {part.use} ({read.name})"


def _all_plays(environment: Environment, games: Sequence[str], plays: int, seed: int) -> Iterator[Example]:
    rng = Streams(seed).numpy("tiny-llm plays")
    for game in games:
        for number in range(plays):
            yield from play(environment, game, number + 1, LlmConfig(model="-").history, rng)


def with_cases(examples: Sequence[Example], rng: np.random.Generator) -> list[Example]:
    """Before every second example stands what was rewarded in the same game at another time, as a case would."""
    rewarded: dict[str, list[str]] = {}
    for example in examples:
        if example.rewarded:
            rewarded.setdefault(example.game, []).append(example.command)
    return [
        replace(example, prompt=replace(example.prompt, cases=(_case(rewarded[example.game], rng),)))
        if rewarded.get(example.game) and rng.random() < 0.5
        else example
        for example in examples
    ]


def _case(commands: Sequence[str], rng: np.random.Generator) -> str:
    command = commands[rng.integers(len(commands))]
    return CASE.format(case=command, command=command, relevance="")


def texts(observation: Observation) -> str:
    """What a tokenizer should have read."""
    return "\n".join([observation.text, *(action.text for action in observation.admissible)])
