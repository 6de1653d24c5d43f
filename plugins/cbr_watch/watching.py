"""Watch a trained agent play: its decisions, explained while they are made. Weights and memory are frozen.

Nothing is printed here: a `Watcher` is told, and may choose another action (a person who plays with advice).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from cbr_open.compared import explained, policy_of
from cbr_open.door import Run
from cbr_open.explanations import Explanation
from cbrcore import Action, Decision, Ending, Episode, Observation, StepResult
from cbrcore.runs.results import unscored

if TYPE_CHECKING:
    from cbr_open.play import Play
    from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace


@dataclass(frozen=True)
class Start:
    """A game play that begins.

    Attributes:
        number: of the pass over the split's games; pass i plays as pass i of the evaluation does.
        seed: of the game's own randomness.
        ending: of a game that offers nothing to do from the start; None if there is a first step.
        scored: whether anybody can read the game's score.
    """

    split: str
    game: str
    number: int
    seed: int
    ending: Ending | None = None
    scored: bool = True


@dataclass(frozen=True)
class Step:
    """A step that was taken, and why.

    Attributes:
        number: of the step in its episode, from 0 as in a case's origin.
        observation: what was seen before.
        explained: of the executed action.
        decision, trace: the record that the explanation was made from.
    """

    start: Start
    number: int
    observation: Observation
    explained: Explanation
    result: StepResult
    decision: Decision
    trace: Trace

    def data(self) -> dict[str, Any]:
        """One line of ``cbr play --json``; the README tells the fields."""
        seen = self.result.observation
        return {
            "split": self.start.split,
            "game": self.start.game,
            "pass": self.start.number,
            "seed": self.start.seed,
            "step": self.number,
            "observation": self.observation.text,
            "admissible": [action.text for action in self.observation.admissible],
            **asdict(self.explained),
            "reward": self.result.reward,
            "score": seen.score if self.start.scored else None,
            "max_score": seen.max_score,
            "ending": None if self.result.ending is None else str(self.result.ending),
        }


class Watcher(Protocol):
    """Is told what happens, as it happens."""

    def begins(self, start: Start) -> None:
        """A game play begins."""

    def decided(self, observation: Observation, explained: Explanation) -> Action | None:
        """The agent has decided. An admissible action to take instead, or None to let it act."""

    def stepped(self, step: Step) -> None:
        """The action was executed."""


def watch(
    run: Run,
    watcher: Watcher,
    *,
    split: str | None = None,
    game: str | None = None,
    episodes: int = 1,
    seed: int | None = None,
    greedy: bool = False,
) -> list[Episode]:
    """Play as `Run.plays` does, and tell the watcher; the episodes.

    The seed of the run and no `game` give the very plays that the evaluation measured.

    Args:
        split: the first one that the recipe evaluates on, or the one that holds `game`, if left out.
        game: play this one only.
        episodes: how many; the split's games in turn, and from the start again.
        seed: of the agent's draws and the games' randomness; the run's, if left out.
        greedy: the agent takes its most probable action instead of drawing one.

    Raises:
        CbrError: there is no such split or game.
    """
    played = []
    for play in run.plays(split, game, episodes=episodes, seed=seed, greedy=greedy):
        scored = not unscored(run.parts.environment.game_info(play.game))
        start = Start(play.split, play.game, play.number, play.seed, play.episode.ending, scored)
        watcher.begins(start)
        while play.episode.ending is None:
            watcher.stepped(_take_step(play, start, run.parts.reasoner, watcher))
        played.append(play.episode)
    return played


def _take_step(play: Play, start: Start, reasoner: CaseBasedReasoner, watcher: Watcher) -> Step:
    """Let the agent decide, explain it, ask the watcher, and do what came of that."""
    decision, trace = play.decide()
    policy = policy_of(reasoner, trace)
    told = explained(decision, trace, reasoner, policy)
    wanted = watcher.decided(play.observation, told)
    if wanted is not None and wanted != decision.action:
        decision = replace(decision, action=wanted, source="person", chosen=None, agent_probability=policy[wanted])
        told = explained(decision, trace, reasoner, policy)
    number = play.episode.steps
    taken = play.step(decision)
    return Step(start, number, taken.observation, told, taken.result, decision, trace)
