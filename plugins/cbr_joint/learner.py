"""A joint agent and the retriever are updated in one step on the sum of all losses [P App. E]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from cbr_a2c.a2c import a2c_loss
from cbr_a2c.contrastive import contrastive_loss
from cbr_a2c.optimizer import GuardedAdam, load_optimizers, optimizer_tensors
from cbr_a2c.outcomes import Outcome, Outcomes
from cbr_a2c.windows import LossMeans, Windows, training_mode
from cbr_joint.config import JointLearnerConfig
from cbr_joint.offered import Offered, offered_again
from cbrcore.config import TrainingConfig
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Stopwatch
from cbrcore.rng import Streams
from cbrcore.types import Transition


class JointLearner:
    """Every action is the agent's own, so L_pi + L_v + L_e are those of all steps, and L_r is added where the
    action was also a candidate. One optimiser, which holds all parameters, minimises the sum.

    A step whose outcome becomes known later than its window (`outcome_steps`) has its L_r then: what it was
    offered is computed again once more."""

    def __init__(self, config: JointLearnerConfig | None = None, build: Build | None = None) -> None:
        self.config = config or JointLearnerConfig()
        self.losses = LossMeans()

    def __repr__(self) -> str:
        return f"JointLearner(outcome_steps={self.config.outcome_steps})"

    def begin(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        """Make the optimiser.

        Raises:
            CbrError: the recipe has no case memory.
        """
        self.player, self.training, self.streams, self.clock = players[0], training, streams, clock
        if self.player.retriever is None:
            raise CbrError(
                "joint training needs a case memory",
                hint="add 'memory: {}' to the recipe, or take another learner",
            )
        self.retriever: Retriever = self.player.retriever
        self.windows = Windows(players, training, self.config.novelty)
        self.outcomes = Outcomes(len(players), self.config.outcome_steps)
        self.optimizer = GuardedAdam(
            "agent and retriever",
            self.player.agent.parameters(),
            learning_rate=training.agent_learning_rate,
            clip=training.clip,
            others=[(self.retriever.parameters(), training.retriever_learning_rate)],
        )

    def took_step(self, seat: int, transition: Transition) -> None:
        """Collect a step."""
        self.windows.add(seat, transition)
        self.outcomes.add(seat, transition)

    def round_of_steps_done(self) -> None:
        """Update when a window is full, or when every episode has ended."""
        if self.windows.due:
            steps, returns = self.windows.take(valued=self.optimizer.active)
            with self.clock.part("update"):
                self._update(steps, returns, self.outcomes.take())

    def _update(self, steps: list[Transition], returns: list[float], outcomes: Sequence[Outcome]) -> None:
        """One step on L_pi + L_v + L_e + L_r. The agent's losses reach the retriever too, through the relevance of
        the candidates that the agent attends to."""
        retriever, agent = self.retriever, self.player.agent
        with training_mode(
            agent, retriever.encoder, retriever.quantizer, streams=self.streams, name="joint-update"
        ):
            frozen = not self.training.retriever_learning_rate
            late = _others(steps, outcomes)
            offered = None if frozen else offered_again(retriever, [step.trace for step in (*steps, *late)])
            relevance = offered.relevance[: len(steps)] if offered else [None] * len(steps)
            inputs = [
                replace(step.trace.agent_input, relevance=row) for step, row in zip(steps, relevance, strict=True)
            ]
            loss = a2c_loss(
                agent.policy(inputs),
                [step.observation.admissible.index(step.decision.action) for step in steps],
                returns,
                value_weight=self.training.value_weight,
                entropy_weight=self.training.entropy_weight,
            )
            total = loss.total + (self._retriever_loss([*steps, *late], outcomes, offered) if offered else 0.0)
            if self.optimizer.step(total) and offered:
                retriever.quantizer.maintain(offered.contexts.detach(), self.streams.torch("maintain"))
        self.losses.note(**loss.means())

    def _retriever_loss(
        self, steps: Sequence[Transition], outcomes: Sequence[Outcome], offered: Offered
    ) -> Tensor:
        """L_r of the steps whose action was a candidate, and what keeps the quantizer close to its data."""
        rows = {id(step): row for step, row in zip(steps, offered.relevance, strict=True)}
        taken = [
            (rows[id(step)][step.trace.agent_input.candidates.index(step.decision.chosen)], outcome.failed)
            for outcome in outcomes
            if (step := outcome.step).decision.chosen is not None and not step.result.rescored
        ]
        regularizer = self.retriever.quantizer.regularizer(offered.contexts)
        if not taken:
            return regularizer
        similarity = torch.stack([row for row, _ in taken])
        failed = torch.tensor([bad for _, bad in taken]).to(similarity)
        loss = contrastive_loss(similarity, failed, margin=self.training.margin).sum()
        self.losses.note(retriever=loss.item() / len(taken))
        return loss + regularizer

    # -- records and checkpoints ---------------------------------------------------------------------------

    def pop_losses(self) -> dict[str, float | None]:
        """Mean losses since the last call; None where there was no update."""
        return self.losses.pop()

    @property
    def skipped(self) -> int:
        """Updates that a loss or gradient that is not finite has cost."""
        return self.optimizer.skipped

    def tensors(self) -> dict[str, Tensor]:
        """The optimiser's state, and what is known of novelty."""
        return {**optimizer_tensors({"agent_optimizer": self.optimizer}), **self.windows.novelty.tensors()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        load_optimizers({"agent_optimizer": self.optimizer}, tensors)
        self.windows.novelty.load_tensors(tensors)


def _others(steps: Sequence[Transition], outcomes: Sequence[Outcome]) -> list[Transition]:
    """The steps of earlier windows whose outcome is known now and whose action was a candidate."""
    known = {id(step) for step in steps}
    later = (outcome.step for outcome in outcomes if id(outcome.step) not in known)
    return [step for step in later if step.decision.chosen is not None]
