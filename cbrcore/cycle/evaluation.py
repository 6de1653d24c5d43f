"""How good is a frozen agent? Plays, splits, means [P §6].

A *pass* plays every game of a split once. Numbers are means over the plays of a game, then over the
games; std is over passes. Evaluation changes nothing: no updates, no retain, random numbers of its own.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace
from cbrcore.cycle.runner import Actor, play_episode
from cbrcore.interfaces import AgentInput, Environment, KnowsContents
from cbrcore.rng import derive_seed, generator
from cbrcore.types import Decision, Ending, Episode, Observation, StepResult

ActorFactory = Callable[[np.random.Generator], Actor]


class FrozenActor:
    """A trained agent that learns and retains nothing."""

    def __init__(self, reasoner: CaseBasedReasoner, rng: np.random.Generator, *, greedy: bool) -> None:
        self._reasoner = reasoner
        self._rng = rng
        self._greedy = greedy

    def begin(self, game: str) -> None:
        self._reasoner.begin_episode()

    def decide(self, observation: Observation) -> tuple[Decision, Trace]:
        return self._reasoner.decide(observation, self._rng, greedy=self._greedy)

    def observe(self, decision: Decision, trace: Trace, result: StepResult) -> None:
        self._reasoner.observe(decision, trace, result)


class UniformActor:
    """The uniform random policy: the baseline beside every table."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def begin(self, game: str) -> None: ...

    def decide(self, observation: Observation) -> tuple[Decision, Trace]:
        count = len(observation.admissible)
        action = observation.admissible[int(self._rng.integers(count))]
        decision = Decision(action, "agent", agent_action=action, agent_probability=1 / count)
        return decision, Trace(AgentInput(observation))

    def observe(self, decision: Decision, trace: Trace, result: StepResult) -> None: ...


@dataclass(frozen=True)
class ReuseCounts:
    """How often cases were reused in an episode [P Fig. 4].

    Attributes:
        reused: steps whose action was a reused one, by rule or by a joint agent's choice.
        rewarded: those of them that earned a reward.
        agent_same: of the rewarded ones, those for which the agent alone drew the same action.
    """

    reused: int
    rewarded: int
    agent_same: int

    @classmethod
    def of(cls, episode: Episode) -> ReuseCounts:
        reused = [step for step in episode.transitions if step.decision.chosen is not None]
        rewarded = [step for step in reused if step.result.reward > 0]
        same = [step for step in rewarded if step.decision.agent_action == step.decision.action]
        return cls(len(reused), len(rewarded), len(same))


@dataclass(frozen=True)
class Played:
    """What an evaluation keeps of a play; `number` is the pass's."""

    game: str
    number: int
    steps: int
    score: float
    norm_score: float | None
    ending: Ending | None
    reuse: ReuseCounts


def play_passes(
    environment: Environment,
    make_actor: ActorFactory,
    split: str,
    *,
    passes: int,
    seed: int,
    after_play: Callable[[], None] = lambda: None,
) -> list[Played]:
    """Play every game of the split `passes` times.

    Args:
        make_actor: gets the pass's own random generator.
        seed: of the evaluation; pass i draws from a stream of its own, the same for every agent.
        after_play: called after each play (progress, interruption).
    """
    plays = []
    for number in range(passes):
        stream = pass_seed(seed, split, number)
        actor = make_actor(generator(stream))
        for game in environment.games(split):
            one = play_episode(environment, actor, game, game_seed(stream, game))
            reuse = ReuseCounts.of(one)
            plays.append(Played(game, number, one.steps, one.score, one.norm_score, one.ending, reuse))
            after_play()
    return plays


def pass_seed(seed: int, split: str, number: int) -> int:
    """Of one pass of an evaluation: of the actor's draws, and of its games (`game_seed`)."""
    return derive_seed(seed, f"evaluation:{split}:{number}")


def game_seed(stream: int, game: str) -> int:
    """A non-zero 31-bit seed for a game's own randomness."""
    return derive_seed(stream, game) % (2**31 - 1) + 1


def summarize(plays: Sequence[Played]) -> dict[str, Any]:
    """JSON-able figures: mean and std of steps and normalized score, per game and over all; where only some games
    have a normalized score (their maximum is above 0), of how many `games` it is the mean."""
    games: dict[str, list[Played]] = {}
    for play in plays:
        games.setdefault(play.game, []).append(play)
    shares = len({play.game for play in plays if play.norm_score is not None})
    return {
        "steps": mean_std(plays, lambda play: play.steps),
        "norm_score": mean_std(plays, lambda play: play.norm_score)
        | ({"games": shares} if 0 < shares < len(games) else {}),
        "score": mean_std(plays, lambda play: play.score),
        "endings": dict(sorted(Counter(str(play.ending) for play in plays).items())),
        "total_steps": sum(play.steps for play in plays),
        "reused": sum(play.reuse.reused for play in plays),
        "reuse_rewarded": sum(play.reuse.rewarded for play in plays),
        "reuse_agent_same": sum(play.reuse.agent_same for play in plays),
        "games": {
            game: {"steps": mean(p.steps for p in of_game), "norm_score": mean(p.norm_score for p in of_game)}
            for game, of_game in games.items()
        },
    }


def same_games(environment: Environment) -> list[list[str]]:
    """Games that are one by content, each as "split/game": what is called unseen may have been trained on."""
    everything = [(split, game) for split in environment.splits() for game in environment.games(split)]
    found: dict[str, list[str]] = {}
    for split, game in everything if len(everything) > 1 else ():
        if isinstance(environment, KnowsContents):
            content: str | None = environment.content(game)
        else:
            facts = environment.game_info(game)
            content = facts.get("sha256") or facts.get("md5")
        if content is not None:
            found.setdefault(content, []).append(f"{split}/{game}")
    return [games for games in found.values() if len(games) > 1]


def ood_gap(evaluation: Mapping[str, Any]) -> dict[str, float] | None:
    """|OUT - IN| of the mean steps and normalized score [P App. H]; None unless both splits were played."""
    if not {"in", "out"} <= evaluation.keys():
        return None
    gaps = {}
    for metric in ("steps", "norm_score"):
        inside, out = (evaluation[split][metric]["mean"] for split in ("in", "out"))
        if None not in (inside, out):
            gaps[metric] = abs(out - inside)
    return gaps


def mean_std(plays: Sequence[Played], value: Callable[[Played], float | None]) -> dict[str, float | None]:
    """Mean over plays, and the sample standard deviation of the passes' means (0 for a single pass)."""
    numbers = sorted({play.number for play in plays})
    means = [mean(value(play) for play in plays if play.number == number) for number in numbers]
    known = [mean for mean in means if mean is not None]
    if not known:
        return {"mean": None, "std": None}
    return {"mean": statistics.fmean(known), "std": statistics.stdev(known) if len(known) > 1 else 0.0}


def mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
