"""Experience for pretraining the retriever, from games played uniformly at random [P §5]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cbrcore.evaluation import UniformActor, game_seed
from cbrcore.interfaces import ContextEncoder, Environment
from cbrcore.rng import derive_seed
from cbrcore.runner import Seat, play_together
from cbrcore.timing import Stopwatch
from cbrcore.training.pretrain import Experience
from cbrcore.types import Episode, Observation


def collect_experience(
    environments: Sequence[Environment],
    encoder: ContextEncoder,
    *,
    passes: int,
    seed: int,
    clock: Stopwatch | None = None,
) -> Iterator[list[Experience]]:
    """Play the training games `passes` times; the experience of each game play.

    Args:
        environments: as many passes are played at the same time. What is found does not depend on how many.
        seed: of the run.
    """
    games = environments[0].games("train")
    for first in range(0, passes, len(environments)):
        numbers = range(first, min(first + len(environments), passes))
        streams = [derive_seed(seed, f"pretrain:{number}") for number in numbers]
        seats = [
            Seat(environment, UniformActor(np.random.Generator(np.random.PCG64(stream))))
            for environment, stream in zip(environments, streams, strict=False)
        ]
        for game in games:
            plays = [(game, game_seed(stream, game)) for stream in streams]
            for episode in play_together(seats, plays, clock=clock):
                yield list(_experience(episode, encoder))


def _experience(episode: Episode, encoder: ContextEncoder) -> Iterator[Experience]:
    """Every action that has a context, less those that put an already scored object back in place."""
    past: list[Observation] = []
    for step in episode.transitions:
        action = step.decision.action
        if action.seeds and not step.result.rescored:
            situation = encoder.situation(step.observation, past)
            yield Experience(situation, action.seeds, action.template, step.result.reward > 0)
        past.append(step.observation)
