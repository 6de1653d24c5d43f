"""Online learning: A2C for the agent's own steps, the contrastive loss for reused ones [P §5]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from cbr_a2c.a2c import a2c_loss
from cbr_a2c.config import A2cConfig
from cbr_a2c.contrastive import contrastive_loss
from cbr_a2c.optimizer import GuardedAdam, load_optimizers, optimizer_tensors
from cbr_a2c.outcomes import Outcome, Outcomes
from cbr_a2c.windows import LossMeans, Windows, training_mode
from cbrcore.config import TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import Build, PolicyOutput, Stopwatch
from cbrcore.rng import Streams
from cbrcore.types import Transition


class Auxiliary(Protocol):
    """Further losses of an agent, which are minimised together with those of A2C.

    Attributes:
        names: of the losses.
    """

    names: Sequence[str]

    def losses(self, steps: Sequence[Transition], outputs: Sequence[PolicyOutput]) -> Mapping[str, Tensor]:
        """Each loss by name, weighted and summed over the steps.

        Args:
            steps: those whose action was the agent's own.
            outputs: the agent's, for each step, with gradients.
        """


class A2cLearner:
    """Turns the transitions of the running episodes into updates of the agent and of the retriever.

    On a step whose action came from the agent the losses are L_pi + L_v + L_e; on a step whose action was
    reused it is L_r alone [P §5]. Rewards of reused steps still count in the returns of earlier steps.

    Args:
        auxiliary: losses beside L_pi + L_v + L_e, if there are any.
    """

    def __init__(
        self,
        config: A2cConfig | None = None,
        build: Build | None = None,
        *,
        auxiliary: Auxiliary | None = None,
    ) -> None:
        self.config = config or A2cConfig()
        self.auxiliary = auxiliary
        self.losses = LossMeans(auxiliary.names if auxiliary else ())

    def __repr__(self) -> str:
        return f"A2cLearner(outcome_steps={self.config.outcome_steps})"

    def begin(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        """Make the optimisers, one for the agent and one for the retriever."""
        self.player, self.training, self.streams, self.clock = players[0], training, streams, clock
        self.windows = Windows(players, training, self.config.novelty)
        self.outcomes = Outcomes(len(players), self.config.outcome_steps)
        retriever = self.player.retriever
        self.agent_optimizer = GuardedAdam(
            "agent",
            self.player.agent.parameters(),
            learning_rate=training.agent_learning_rate,
            clip=training.clip,
        )
        self.retriever_optimizer = GuardedAdam(
            "retriever",
            retriever.parameters() if retriever else [],
            learning_rate=training.retriever_learning_rate,
            clip=training.clip,
        )

    def took_step(self, seat: int, transition: Transition) -> None:
        """Collect a step."""
        self.windows.add(seat, transition)
        self.outcomes.add(seat, transition)

    def round_of_steps_done(self) -> None:
        """Update when a window is full, or when every episode has ended."""
        if not self.windows.due:
            return
        steps, returns = self.windows.take(valued=self.agent_optimizer.active)
        outcomes = self.outcomes.take()
        with self.clock.part("update"):
            self._update_agent(steps, returns)
            if self.player.retriever is not None:
                self._update_retriever(self.player.retriever, outcomes)

    def _update_agent(self, steps: list[Transition], returns: list[float]) -> None:
        """L_pi + L_v + L_e, and the auxiliary losses, on the steps whose action was the agent's own."""
        pairs = zip(steps, returns, strict=True)
        own = [(step, target) for step, target in pairs if step.decision.source == "agent"]
        if not own or not self.agent_optimizer.active:
            return
        with training_mode(self.player.agent, streams=self.streams, name="agent-update"):
            outputs = self.player.agent.policy([step.trace.agent_input for step, _ in own])
            loss = a2c_loss(
                outputs,
                [step.observation.admissible.index(step.decision.action) for step, _ in own],
                [target for _, target in own],
                value_weight=self.training.value_weight,
                entropy_weight=self.training.entropy_weight,
            )
            further = self.auxiliary.losses([step for step, _ in own], outputs) if self.auxiliary else {}
            self.agent_optimizer.step(sum(further.values(), loss.total))
        means = {name: each.item() / len(own) for name, each in further.items()}
        self.losses.note(**loss.means(), **means)

    def _update_retriever(self, retriever: Retriever, outcomes: Sequence[Outcome]) -> None:
        """L_r between the executed action's context and the retrieved key. Steps that put an already scored
        object back in place are left out: they earn nothing although they are right."""
        by_key = (each for each in outcomes if each.step.trace.matched_key is not None)  # some cases have none
        of_reuse = (each for each in by_key if each.step.decision.source == "reuse")
        told = [each for each in of_reuse if not each.step.result.rescored]
        if not told or not self.retriever_optimizer.active:
            return
        reused = [each.step for each in told]
        pairs = [(step.trace.situation, step.decision.chosen.seeds) for step in reused if step.decision.chosen]
        keys = torch.stack([step.trace.matched_key for step in reused])  # [n, ...]
        with training_mode(retriever.encoder, retriever.quantizer, streams=self.streams, name="retriever-update"):
            contexts = retriever.encoder.contexts_of_pairs(pairs)  # [n, d]
            similarity = retriever.quantizer.similarity(contexts, keys)  # [n]
            failed = torch.tensor([each.failed for each in told]).to(similarity)
            loss = contrastive_loss(similarity, failed, margin=self.training.margin).sum()
            done = self.retriever_optimizer.step(loss + retriever.quantizer.regularizer(contexts))
            if done:
                retriever.quantizer.maintain(contexts.detach(), self.streams.torch("maintain"))
        self.losses.note(retriever=loss.item() / len(reused))

    # -- records and checkpoints ---------------------------------------------------------------------------

    def pop_losses(self) -> dict[str, float | None]:
        """Mean losses since the last call; None where there was no update."""
        return self.losses.pop()

    @property
    def skipped(self) -> int:
        """Updates that a loss or gradient that is not finite has cost."""
        return sum(optimizer.skipped for optimizer in self._optimizers().values())

    def tensors(self) -> dict[str, Tensor]:
        """The optimisers' states, and what is known of novelty."""
        return {**optimizer_tensors(self._optimizers()), **self.windows.novelty.tensors()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        load_optimizers(self._optimizers(), tensors)
        self.windows.novelty.load_tensors(tensors)

    def _optimizers(self) -> dict[str, GuardedAdam]:
        return {"agent_optimizer": self.agent_optimizer, "retriever_optimizer": self.retriever_optimizer}
