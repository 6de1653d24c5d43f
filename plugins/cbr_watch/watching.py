"""Watch a trained agent play: its decisions, explained while they are made. Weights and memory are frozen.

Nothing is printed here: a `Watcher` is told, and may choose another action (a person who plays with advice).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbr_watch.explanations import Explanation, explain
from cbrcore.cycle.evaluation import FrozenActor, game_seed
from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace
from cbrcore.cycle.runner import play_episode
from cbrcore.errors import CbrError, suggest
from cbrcore.interfaces import Environment
from cbrcore.rng import derive_seed
from cbrcore.runs import Trained
from cbrcore.types import Action, Case, Decision, EntityTuple, Episode, Match, Observation, StepResult


@dataclass(frozen=True)
class Start:
    """A game play that begins.

    Attributes:
        number: of the pass over the split's games; pass i plays as pass i of the evaluation does.
        seed: of the game's own randomness.
    """

    split: str
    game: str
    number: int
    seed: int


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
        """One line of ``cbr play --json`` (README, "Watch an agent")."""
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
            "score": seen.score,
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
    run: Trained,
    watcher: Watcher,
    *,
    split: str | None = None,
    game: str | None = None,
    episodes: int = 1,
    seed: int | None = None,
    greedy: bool = False,
) -> list[Episode]:
    """Play `episodes` games of the split, one after the other and from the start again.

    The seed of the run and no `game` give the very plays that the evaluation measured.

    Args:
        split: the first one that the recipe evaluates on, or the one that holds `game`, if left out.
        game: play this one only.
        seed: of the agent's draws and the games' randomness; the run's, if left out.
        greedy: the agent takes its most probable action instead of drawing one.

    Raises:
        CbrError: there is no such split or game.
        RunFailed: a game offers nothing to do.
    """
    environment, reasoner = run.parts.environment, run.parts.reasoner
    split = split or _split_of(environment, game, run.recipe.evaluation.splits)
    games = _games(environment, split, game)
    seed = run.recipe.seed if seed is None else seed
    played: list[Episode] = []
    for number in range(-(-episodes // len(games))):
        stream = derive_seed(seed, f"evaluation:{split}:{number}")
        rng = np.random.Generator(np.random.PCG64(stream))
        for name in games[: episodes - len(played)]:
            start = Start(split, name, number, game_seed(stream, name))
            actor = WatchedActor(reasoner, rng, watcher, start, greedy=greedy)
            played.append(play_episode(environment, actor, name, start.seed))
    return played


def _split_of(environment: Environment, game: str | None, evaluated: Sequence[str]) -> str:
    """The split that holds the game; without one the first that is evaluated, else one that is not trained on."""
    splits = list(dict.fromkeys([*evaluated, *environment.splits()]))
    if game is None:
        others = [split for split in splits if split != "train"]
        return (list(evaluated) or others or splits)[0]
    found = next((split for split in splits if game in environment.games(split)), None)
    if found is None:
        known = [name for split in splits for name in environment.games(split)]
        raise CbrError(f"this run's environment has no game {game!r}. {suggest(game, known)}")
    return found


def _games(environment: Environment, split: str, game: str | None) -> Sequence[str]:
    games = environment.games(split)
    if game is not None and game not in games:
        raise CbrError(f"the split {split!r} has no game {game!r}. {suggest(game, games)}")
    return games if game is None else (game,)


class WatchedActor:
    """A frozen agent whose every decision is explained to a watcher, who may overrule it."""

    def __init__(
        self,
        reasoner: CaseBasedReasoner,
        rng: np.random.Generator,
        watcher: Watcher,
        start: Start,
        *,
        greedy: bool = False,
    ) -> None:
        self._reasoner = reasoner
        self._actor = FrozenActor(reasoner, rng, greedy=greedy)
        self._watcher = watcher
        self._start = start
        self._steps = 0

    def begin(self, game: str) -> None:
        self._actor.begin(game)
        self._watcher.begins(self._start)

    def decide(self, observation: Observation) -> tuple[Decision, Trace]:
        decision, trace = self._actor.decide(observation)
        probabilities = policy_of(self._reasoner, trace)
        self._explained = self._explain(decision, trace, probabilities)
        wanted = self._watcher.decided(observation, self._explained)
        if wanted is not None and wanted != decision.action:
            decision = replace(
                decision, action=wanted, source="person", chosen=None, agent_probability=probabilities[wanted]
            )
            self._explained = self._explain(decision, trace, probabilities)
        self._observation = observation
        return decision, trace

    def observe(self, decision: Decision, trace: Trace, result: StepResult) -> None:
        self._actor.observe(decision, trace, result)
        step = Step(self._start, self._steps, self._observation, self._explained, result, decision, trace)
        self._steps += 1
        self._watcher.stepped(step)

    def _explain(self, decision: Decision, trace: Trace, probabilities: dict[Action, float]) -> Explanation:
        retriever = self._reasoner.retriever
        return explain(
            decision,
            tau=retriever.threshold if retriever else None,
            nearest=nearest_case(self._reasoner, trace),
            probabilities=probabilities,
        )


def policy_of(reasoner: CaseBasedReasoner, trace: Trace) -> dict[Action, float]:
    """pi(a | s_t) of every admissible action at a step; changes nothing."""
    import torch

    with torch.no_grad():
        logits = reasoner.agent.policy([trace.agent_input])[0].logits  # [A]
    probabilities = torch.softmax(logits.double(), dim=0).tolist()
    return dict(zip(trace.agent_input.observation.admissible, probabilities, strict=True))


def nearest_case(reasoner: CaseBasedReasoner, trace: Trace) -> tuple[EntityTuple, Match] | None:
    """(context, the most similar case) over all contexts of a step, whatever tau says; None if there is none."""
    compared = similarities_at(reasoner, trace)
    if not compared.values.size:
        return None
    column, row = divmod(int(compared.values.T.argmax()), len(compared.cases))  # the first context among equals
    relevance = float(compared.values[row, column])
    if relevance == float("-inf"):  # an approximate index did not look at any
        return None
    return compared.contexts[column], Match(compared.cases[row], relevance)


@dataclass(frozen=True)
class Similarities:
    """What the retriever compared at a step: every case of the memory with every context.

    Attributes:
        contexts: n, each once, in the order of the admissible actions.
        arities: of each context, how many entities its actions take; a case of another arity cannot be reused.
        cases: m, in the order of the memory.
        values: [m, n] in [0, 1]; -inf where an approximate index did not look.
    """

    contexts: tuple[EntityTuple, ...]
    arities: tuple[frozenset[int], ...]
    cases: tuple[Case, ...]
    values: NDArray[np.float64]


def similarities_at(reasoner: CaseBasedReasoner, trace: Trace) -> Similarities:
    """The similarities of a step that was just taken: the numbers that were compared with tau; changes nothing.

    To be asked before the next episode begins, which forgets the keys of this one.
    """
    retriever, seen = reasoner.retriever, trace.agent_input.observation
    if retriever is None:
        return Similarities((), (), (), np.zeros((0, 0)))
    arities: dict[EntityTuple, set[int]] = {}
    for action in seen.admissible:
        if action.seeds:
            view = retriever.view(action)
            arities.setdefault(view.seeds, set()).add(len(view.entities))
    memory, contexts = retriever.memory, tuple(arities)
    values = np.zeros((len(memory), len(contexts)))
    if values.size:
        keys = retriever.keys(trace.situation, contexts)
        values = memory.index.similarities(keys).double().cpu().numpy().T  # [n, m] -> [m, n]
    return Similarities(contexts, tuple(map(frozenset, arities.values())), tuple(memory.cases), values)
