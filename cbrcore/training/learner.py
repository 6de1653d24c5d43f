"""Online learning: windows of steps -> A2C for the agent's own steps, the contrastive loss for reused ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from cbrcore.config import TrainingConfig
from cbrcore.interfaces import Trainable
from cbrcore.reasoner import CaseBasedReasoner, Retriever
from cbrcore.rng import Streams
from cbrcore.timing import Stopwatch
from cbrcore.training.a2c import a2c_loss, n_step_returns
from cbrcore.training.contrastive import contrastive_loss
from cbrcore.training.optimizer import GuardedAdam
from cbrcore.types import Ending, Transition


@contextmanager
def training_mode(*modules: Trainable, streams: Streams, name: str) -> Iterator[None]:
    """Modules in train mode, torch's global generator (dropout) on the named stream; both are put back."""
    seed = int(streams.numpy(name).integers(2**62))
    for module in modules:
        module.train()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            yield
        finally:
            for module in modules:
                module.train(False)


class Learner:
    """Turns the transitions of the running episodes into updates; the observer of `play_together`.

    On a step whose action came from the agent the losses are L_pi + L_v + L_e; on a step whose action was
    reused it is L_r alone [P §5]. Rewards of reused steps still count in the returns of earlier steps.

    Args:
        reasoners: one player for each game that is played at the same time. They share their networks: an
            update takes the steps of all of them.
    """

    def __init__(
        self, reasoners: Sequence[CaseBasedReasoner], config: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        self.reasoners = reasoners
        self.reasoner = reasoners[0]
        self.config = config
        self.streams = streams
        self.clock = clock
        self.agent_optimizer = GuardedAdam(
            "agent",
            self.reasoner.agent.parameters(),
            learning_rate=config.agent_learning_rate,
            clip=config.clip,
        )
        retriever = self.reasoner.retriever
        modules: list[Trainable] = [retriever.encoder, retriever.quantizer] if retriever else []
        self.retriever_optimizer = GuardedAdam(
            "retriever",
            [parameter for module in modules for parameter in module.parameters()],
            learning_rate=config.retriever_learning_rate,
            clip=config.clip,
        )
        self._windows: list[list[Transition]] = [[] for _ in reasoners]
        self._losses: dict[str, list[float]] = defaultdict(list)

    def __repr__(self) -> str:
        return f"Learner({self.agent_optimizer!r}, {self.retriever_optimizer!r})"

    def took_step(self, seat: int, transition: Transition) -> None:
        """Collect a step."""
        self._windows[seat].append(transition)

    def round_of_steps_done(self) -> None:
        """Update when a window is full, or when every episode has ended."""
        begun = [window for window in self._windows if window]
        full = any(len(window) >= self.config.update_every for window in begun)
        if begun and (full or all(window[-1].result.ending is not None for window in begun)):
            self._update()

    def pop_losses(self) -> dict[str, float | None]:
        """Mean losses since the last call; None where there was no update."""
        names = ("policy", "value", "entropy", "retriever")
        means = {
            f"loss_{name}": sum(self._losses[name]) / len(self._losses[name]) if self._losses[name] else None
            for name in names
        }
        self._losses.clear()
        return means

    def _update(self) -> None:
        windows, self._windows = self._windows, [[] for _ in self.reasoners]
        returns = [
            target
            for reasoner, window in zip(self.reasoners, windows, strict=True)
            for target in self._returns(reasoner, window)
        ]
        steps = [step for window in windows for step in window]
        with self.clock.part("update"):
            self._update_agent(steps, returns)
            if self.reasoner.retriever is not None:
                self._update_retriever(self.reasoner.retriever, steps)

    def _returns(self, reasoner: CaseBasedReasoner, window: list[Transition]) -> list[float]:
        if not window:
            return []
        rewards = [self._reward(step) for step in window]
        return n_step_returns(rewards, gamma=self.config.gamma, bootstrap=self._bootstrap(reasoner, window[-1]))

    def _reward(self, step: Transition) -> float:
        won = step.result.ending is Ending.WON
        return step.result.reward + (self.config.win_bonus if won else 0.0)

    def _bootstrap(self, reasoner: CaseBasedReasoner, last: Transition) -> float:
        """V(s_T): 0 where the game truly ended, else (also at a time limit) the next observation's value."""
        ending = last.result.ending
        if not self.agent_optimizer.active or (ending is not None and ending.terminal):
            return 0.0
        return reasoner.value_of(last.result.observation)

    def _update_agent(self, steps: list[Transition], returns: list[float]) -> None:
        own = [
            (step, target) for step, target in zip(steps, returns, strict=True) if step.decision.source == "agent"
        ]
        if not own or not self.agent_optimizer.active:
            return
        agent = self.reasoner.agent
        with training_mode(agent, streams=self.streams, name="agent-update"):
            loss = a2c_loss(
                agent.policy([step.trace.agent_input for step, _ in own]),
                [step.observation.admissible.index(step.decision.action) for step, _ in own],
                [target for _, target in own],
                value_weight=self.config.value_weight,
                entropy_weight=self.config.entropy_weight,
            )
            self.agent_optimizer.step(loss.total)
        for name, value in (("policy", loss.policy), ("value", loss.value), ("entropy", loss.entropy)):
            self._losses[name].append(value.item() / len(own))

    def _update_retriever(self, retriever: Retriever, steps: list[Transition]) -> None:
        """L_r between the executed action's context and the retrieved key. Steps that put an already scored
        object back in place are left out: they earn nothing although they are right."""
        reused = [step for step in steps if step.decision.source == "reuse" and not step.result.rescored]
        if not reused or not self.retriever_optimizer.active:
            return
        pairs = [(step.trace.situation, step.decision.chosen.seeds) for step in reused if step.decision.chosen]
        keys = torch.stack([step.trace.matched_key for step in reused])  # [n, ...]
        failed = [step.result.reward <= 0 for step in reused]
        with training_mode(retriever.encoder, retriever.quantizer, streams=self.streams, name="retriever-update"):
            contexts = retriever.encoder.contexts_of_pairs(pairs)  # [n, d]
            similarity = retriever.quantizer.similarity(contexts, keys)  # [n]
            dissimilar = torch.tensor(failed, dtype=similarity.dtype, device=similarity.device)
            loss = contrastive_loss(similarity, dissimilar, margin=self.config.margin).sum()
            done = self.retriever_optimizer.step(loss + retriever.quantizer.regularizer(contexts))
            if done:
                retriever.quantizer.maintain(contexts.detach(), self.streams.torch("maintain"))
        self._losses["retriever"].append(loss.item() / len(reused))
