"""Online learning: windows of steps -> A2C for the agent's own steps, the contrastive loss for reused ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
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
    """Turns the running episode's transitions into updates.

    On a step whose action came from the agent the losses are L_pi + L_v + L_e; on a step whose action was
    reused it is L_r alone [P §5]. Rewards of reused steps still count in the returns of earlier steps.
    """

    def __init__(
        self, reasoner: CaseBasedReasoner, config: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        self.reasoner = reasoner
        self.config = config
        self.streams = streams
        self.clock = clock
        self.agent_optimizer = GuardedAdam(
            "agent",
            reasoner.agent.parameters(),
            learning_rate=config.agent_learning_rate,
            clip=config.clip,
        )
        retriever = reasoner.retriever
        modules: list[Trainable] = [retriever.encoder, retriever.quantizer] if retriever else []
        self.retriever_optimizer = GuardedAdam(
            "retriever",
            [parameter for module in modules for parameter in module.parameters()],
            learning_rate=config.retriever_learning_rate,
            clip=config.clip,
        )
        self._window: list[Transition] = []
        self._losses: dict[str, list[float]] = defaultdict(list)

    def __repr__(self) -> str:
        return f"Learner({self.agent_optimizer!r}, {self.retriever_optimizer!r})"

    def take(self, transition: Transition) -> None:
        """Collect a step; update when the window is full or the episode has ended."""
        self._window.append(transition)
        ended = transition.result.ending is not None
        if ended or len(self._window) >= self.config.update_every:
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
        window, self._window = self._window, []
        returns = n_step_returns(
            [self._reward(step) for step in window], gamma=self.config.gamma, bootstrap=self._bootstrap(window[-1])
        )
        with self.clock.part("update"):
            self._update_agent(window, returns)
            if self.reasoner.retriever is not None:
                self._update_retriever(self.reasoner.retriever, window)

    def _reward(self, step: Transition) -> float:
        won = step.result.ending is Ending.WON
        return step.result.reward + (self.config.win_bonus if won else 0.0)

    def _bootstrap(self, last: Transition) -> float:
        """V(s_T): 0 where the game truly ended, else (also at a time limit) the next observation's value."""
        ending = last.result.ending
        if not self.agent_optimizer.active or (ending is not None and ending.terminal):
            return 0.0
        return self.reasoner.value_of(last.result.observation)

    def _update_agent(self, window: list[Transition], returns: list[float]) -> None:
        own = [
            (step, target) for step, target in zip(window, returns, strict=True) if step.decision.source == "agent"
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

    def _update_retriever(self, retriever: Retriever, window: list[Transition]) -> None:
        """L_r between the executed action's context and the retrieved key. Steps that put an already scored
        object back in place are left out: they earn nothing although they are right."""
        reused = [step for step in window if step.decision.source == "reuse" and not step.result.rescored]
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
