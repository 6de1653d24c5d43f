"""Q-learning from a replay memory, in the place of the actor-critic."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from cbr_drrn.config import DrrnLearnerConfig
from cbr_drrn.loss import td_targets
from cbr_drrn.reading import Reading, reading
from cbr_drrn.replay import Replay, Step
from cbr_drrn.retrieving import RetrieverUpdates
from cbr_drrn.updates import Updates
from cbrcore import (
    Build,
    CaseBasedReasoner,
    CbrError,
    Ending,
    NeuralAgent,
    Stopwatch,
    Streams,
    TrainingConfig,
    Transition,
)

REPLAY, COUNTS, TARGET = "drrn:replay", "drrn:counts", "drrn_target:"


@runtime_checkable
class ValuesActions(NeuralAgent, Protocol):
    """An agent that this learner can teach."""

    def q_values(self, readings: Sequence[Reading]) -> list[Tensor]:
        """Q [A] of each reading's actions."""


class DrrnLearner:
    """L = Huber(Q(s, a) - y), y = r + gamma max over A_t+1 of Q(s', a'), a mean over what it remembers.

    Q-learning is off-policy: steps whose action came from the case memory are remembered like all others. Where
    there is a retriever it learns, too, as with cbr's own learner. At a time limit the game would go on, and so
    does the target. Every step is whole by itself, so games may be played in step (`run.num_envs`).

    Attributes:
        skipped: updates that a loss or gradient which is not finite has cost.
    """

    def __init__(self, config: DrrnLearnerConfig, build: Build) -> None:
        self.config = config
        self.replay = Replay(config.replay, config.rewarded_share)
        self._since, self._updates = 0, 0
        self._playing: set[int] = set()
        self._losses: dict[str, list[float]] = {"loss_td": [], "loss_retriever": []}

    def __repr__(self) -> str:
        return f"DrrnLearner(batch={self.config.batch}, rewarded_share={self.config.rewarded_share})"

    def begin(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        """Make the optimisers.

        Raises:
            CbrError: the agent does not value actions.
        """
        agent = players[0].agent
        if not isinstance(agent, ValuesActions):
            raise CbrError(
                f"the learner cbr_drrn/drrn needs an agent that values actions, not {type(agent).__name__}",
                hint="write agent: {use: cbr_drrn/drrn}, or take another learner",
            )
        self.agent: ValuesActions = agent
        self.training, self.streams, self.clock = training, streams, clock
        self.updates = Updates("drrn_agent", agent.parameters(), training.agent_learning_rate, training.clip)
        self.retrieving = RetrieverUpdates(players[0].retriever, training, streams)
        self.target = copy.deepcopy(agent) if self.config.target_every else agent

    def took_step(self, seat: int, transition: Transition) -> None:
        """Remember a step."""
        (self._playing.add if transition.result.ending is None else self._playing.discard)(seat)
        self.replay.add(remembered(transition, self.training.win_bonus))
        self.retrieving.add(transition)
        self._since += 1

    def round_of_steps_done(self) -> None:
        """Update when enough steps were taken; the retriever also when every episode has ended."""
        due = self._since >= self.training.update_every
        with self.clock.part("update"):
            if due and len(self.replay) >= self.config.batch:
                self._learn()
            if due or not self._playing:  # a checkpoint, which comes between plays, finds nothing collected
                self._note("loss_retriever", self.retrieving.update())
        self._since = 0 if due else self._since

    def _learn(self) -> None:
        batch = self.replay.draw(self.config.batch, self.streams.numpy("drrn-replay"))
        targets = self._targets(batch)
        values = torch.cat(self.agent.q_values([step.before for step in batch]))  # [n]: one action each
        loss = smooth_l1_loss(values, targets.to(values))
        if self.updates.step(loss):
            self._note("loss_td", loss.item())
        self._updates += 1
        if self.config.target_every and self._updates % self.config.target_every == 0:
            self.target.load_state_dict(self.agent.state_dict())

    def _targets(self, batch: Sequence[Step]) -> Tensor:
        """y [n]."""
        following = [step.after for step in batch if step.after is not None]
        with torch.no_grad():
            found = iter(self.target.q_values(following) if following else [])
        values = [None if step.after is None else next(found) for step in batch]
        return td_targets([step.reward for step in batch], values, gamma=self.training.gamma)

    def _note(self, name: str, loss: float | None) -> None:
        if loss is not None:
            self._losses[name].append(loss)

    # -- records and checkpoints ---------------------------------------------------------------------------

    @property
    def skipped(self) -> int:
        """Updates that were skipped."""
        return self.updates.skipped + self.retrieving.updates.skipped

    def pop_losses(self) -> Mapping[str, float | None]:
        """Mean losses since the last call; None where there was no update."""
        found = {name: sum(values) / len(values) if values else None for name, values in self._losses.items()}
        for values in self._losses.values():
            values.clear()
        return found

    def metrics(self) -> Mapping[str, float]:
        """replay_steps: steps in the replay memory."""
        return {"replay_steps": float(len(self.replay))}

    def tensors(self) -> Mapping[str, Tensor]:
        """Replay memory, counters, optimisers, and the target network where there is one. The random stream of the
        replay is one of the run's (`Streams`), which a checkpoint holds anyway."""
        target = self.target.state_dict() if self.config.target_every else {}
        return {
            REPLAY: self.replay.tensor(),
            COUNTS: torch.tensor([self._since, self._updates]),
            **{f"{TARGET}{name}": value for name, value in target.items()},
            **self.updates.tensors(),
            **self.retrieving.updates.tensors(),
        }

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.replay.load(tensors[REPLAY])
        self._since, self._updates = tensors[COUNTS].tolist()
        self.updates.load_tensors(tensors)
        self.retrieving.updates.load_tensors(tensors)
        if self.config.target_every:
            own = {name.removeprefix(TARGET): value for name, value in tensors.items() if name.startswith(TARGET)}
            self.target.load_state_dict(own)


def remembered(transition: Transition, win_bonus: float) -> Step:
    """A step as the replay memory holds it; what follows is None where the game truly ended."""
    result = transition.result
    over = result.ending is not None and result.ending.terminal
    after = None if over or not result.observation.admissible else reading(result.observation)
    bonus = win_bonus if result.ending is Ending.WON else 0.0
    executed = reading(transition.observation, [transition.decision.action.text])
    return Step(executed, result.reward + bonus, after)
