"""Experience for pretraining the retriever: of a uniform random agent, or of a baseline that learns [P §5]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cbr_pretrain.pairs import Experience
from cbrcore.config import TrainingConfig
from cbrcore.cycle.evaluation import UniformActor, game_seed
from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace
from cbrcore.cycle.retriever import view_of
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.interfaces import ContextEncoder, Environment, Learner, Stopwatch
from cbrcore.rng import Streams, derive_seed
from cbrcore.types import Decision, Episode, Observation, StepResult


@dataclass
class PlayCount:
    """What collecting experience has played: game plays, and environment steps of all of them.

    Steps without a context count too; they are no experience, but they were played.
    """

    steps: int = 0
    plays: int = 0

    def add(self, episode: Episode) -> None:
        self.steps += episode.steps
        self.plays += 1


def collect_experience(
    environments: Sequence[Environment],
    encoder: ContextEncoder,
    *,
    passes: int,
    seed: int,
    clock: Stopwatch | None = None,
    count: PlayCount | None = None,
) -> Iterator[list[Experience]]:
    """Play the training games `passes` times; the experience of each game play.

    Args:
        environments: as many passes are played at the same time. What is found does not depend on how many.
        seed: of the run.
        count: every game play is added to it.
    """
    count = count or PlayCount()
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
                count.add(episode)
                yield list(_experience(episode, encoder))


def collect_while_learning(
    environments: Sequence[Environment],
    encoder: ContextEncoder,
    collector: CaseBasedReasoner,
    training: TrainingConfig,
    learner: Learner,
    *,
    passes: int,
    streams: Streams,
    clock: Stopwatch | None = None,
    count: PlayCount | None = None,
) -> Iterator[list[Experience]]:
    """Play the training games `passes` times with a baseline agent that learns meanwhile; the experience of each
    game play. What an agent sees on its way from bad to good is more varied than what a random one sees.

    Args:
        collector: a plain neural agent.
        training, learner: how it learns.
        count: every game play is added to it.
    """
    count = count or PlayCount()
    games, clock = environments[0].games("train"), clock or Stopwatch()
    players = [collector, *(collector.companion() for _ in environments[1:])]
    learner.begin(players, training, streams, clock)
    seats = [Seat(env, _Learning(player, streams)) for env, player in zip(environments, players, strict=True)]
    plays = [
        (game, game_seed(derive_seed(streams.seed, f"pretrain:{number}"), game))
        for number in range(passes)
        for game in games
    ]
    for first in range(0, len(plays), len(seats)):
        for episode in play_together(seats, plays[first : first + len(seats)], observer=learner, clock=clock):
            count.add(episode)
            yield list(_experience(episode, encoder))


class _Learning:
    """A baseline agent that draws its actions."""

    def __init__(self, reasoner: CaseBasedReasoner, streams: Streams) -> None:
        self._reasoner = reasoner
        self._streams = streams

    def begin(self, game: str) -> None:
        self._reasoner.begin_episode()

    def decide(self, observation: Observation) -> tuple[Decision, Trace]:
        return self._reasoner.decide(observation, self._streams.numpy("collector"))

    def observe(self, decision: Decision, trace: Trace, result: StepResult) -> None:
        self._reasoner.observe(decision, trace, result)


def _experience(episode: Episode, encoder: ContextEncoder) -> Iterator[Experience]:
    """Every action that has a context, less those that put an already scored object back in place."""
    past: list[Observation] = []
    for step in episode.transitions:
        action = view_of(encoder, step.decision.action)
        if action.seeds and not step.result.rescored:
            situation = encoder.situation(step.observation, past)
            yield Experience(situation, action.seeds, action.template, step.result.reward > 0)
        past.append(step.observation)
