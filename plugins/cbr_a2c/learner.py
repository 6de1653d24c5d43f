"""Online learning: windows of steps -> A2C for the agent's own steps, the contrastive loss for reused ones.

A joint agent and the retriever are updated in one step on the sum of all losses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from cbr_a2c.a2c import A2cLoss, a2c_loss, n_step_returns
from cbr_a2c.contrastive import contrastive_loss
from cbr_a2c.optimizer import GuardedAdam
from cbr_joint.offered import Offered, offered_again
from cbrcore.config import TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import AgentInput, Stopwatch, Trainable
from cbrcore.rng import Streams
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

    With a joint agent every action is its own, so L_pi + L_v + L_e are those of all steps, and L_r is added where
    the action was also a candidate. One optimiser, which holds all parameters, minimises the sum [P App. E].

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
        retriever, joint = self.reasoner.retriever, self.reasoner.joint
        modules: list[Trainable] = [retriever.encoder, retriever.quantizer] if retriever else []
        of_retriever = [parameter for module in modules for parameter in module.parameters()]
        self.agent_optimizer = GuardedAdam(
            "agent and retriever" if joint else "agent",
            self.reasoner.agent.parameters(),
            learning_rate=config.agent_learning_rate,
            clip=config.clip,
            others=[(of_retriever, config.retriever_learning_rate)] if joint else [],
        )
        self.retriever_optimizer = GuardedAdam(
            "retriever",
            [] if joint else of_retriever,
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
        retriever = self.reasoner.retriever
        with self.clock.part("update"):
            if retriever is not None and self.reasoner.joint:
                self._update_jointly(retriever, steps, returns)
                return
            self._update_agent(steps, returns)
            if retriever is not None:
                self._update_retriever(retriever, steps)

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
        with training_mode(self.reasoner.agent, streams=self.streams, name="agent-update"):
            loss = self._agent_loss([step.trace.agent_input for step, _ in own], *zip(*own, strict=True))
            self.agent_optimizer.step(loss.total)
        self._note_agent_loss(loss, len(own))

    def _agent_loss(
        self, inputs: Sequence[AgentInput], steps: Sequence[Transition], returns: Sequence[float]
    ) -> A2cLoss:
        return a2c_loss(
            self.reasoner.agent.policy(inputs),
            [step.observation.admissible.index(step.decision.action) for step in steps],
            returns,
            value_weight=self.config.value_weight,
            entropy_weight=self.config.entropy_weight,
        )

    def _note_agent_loss(self, loss: A2cLoss, steps: int) -> None:
        for name, value in (("policy", loss.policy), ("value", loss.value), ("entropy", loss.entropy)):
            self._losses[name].append(value.item() / steps)

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
            loss = self._contrastive(similarity, failed)
            done = self.retriever_optimizer.step(loss + retriever.quantizer.regularizer(contexts))
            if done:
                retriever.quantizer.maintain(contexts.detach(), self.streams.torch("maintain"))
        self._losses["retriever"].append(loss.item() / len(reused))

    def _contrastive(self, similarity: Tensor, failed: Sequence[bool]) -> Tensor:
        """L_r of the pairs [n], summed."""
        dissimilar = torch.tensor(failed, dtype=similarity.dtype, device=similarity.device)
        return contrastive_loss(similarity, dissimilar, margin=self.config.margin).sum()

    # -- jointly -------------------------------------------------------------------------------------------

    def _update_jointly(self, retriever: Retriever, steps: list[Transition], returns: list[float]) -> None:
        """One step on L_pi + L_v + L_e + L_r. The agent's losses reach the retriever too, through the relevance of
        the candidates that the agent attends to."""
        modules = (self.reasoner.agent, retriever.encoder, retriever.quantizer)
        with training_mode(*modules, streams=self.streams, name="joint-update"):
            frozen = not self.config.retriever_learning_rate
            offered = None if frozen else offered_again(retriever, [step.trace for step in steps])
            relevance = offered.relevance if offered else [None] * len(steps)
            inputs = [
                replace(step.trace.agent_input, relevance=row) for step, row in zip(steps, relevance, strict=True)
            ]
            loss = self._agent_loss(inputs, steps, returns)
            total = loss.total + (self._retriever_loss(retriever, steps, offered) if offered else 0.0)
            if self.agent_optimizer.step(total) and offered:
                retriever.quantizer.maintain(offered.contexts.detach(), self.streams.torch("maintain"))
        self._note_agent_loss(loss, len(steps))

    def _retriever_loss(self, retriever: Retriever, steps: list[Transition], offered: Offered) -> Tensor:
        """L_r of the steps whose action was a candidate, and what keeps the quantizer close to its data."""
        taken = [
            (row[step.trace.agent_input.candidates.index(step.decision.chosen)], step.result.reward <= 0)
            for step, row in zip(steps, offered.relevance, strict=True)
            if step.decision.chosen is not None and not step.result.rescored
        ]
        regularizer = retriever.quantizer.regularizer(offered.contexts)
        if not taken:
            return regularizer
        similarity, failed = zip(*taken, strict=True)
        loss = self._contrastive(torch.stack(similarity), failed)
        self._losses["retriever"].append(loss.item() / len(taken))
        return loss + regularizer
