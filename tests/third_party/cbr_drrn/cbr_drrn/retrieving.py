"""What a retriever learns while the agent does: the contrastive loss of the steps whose action was reused."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cbr_drrn.loss import contrastive_loss
from cbr_drrn.updates import Updates
from cbrcore import Retriever, Streams, TrainingConfig, Transition


class RetrieverUpdates:
    """L_r of the reused steps since the last update.

    A step that put something back in its place earns nothing although it is right, and is left out.
    """

    def __init__(self, retriever: Retriever | None, training: TrainingConfig, streams: Streams) -> None:
        self.retriever, self.margin, self.streams = retriever, training.margin, streams
        parameters = retriever.parameters() if retriever else []
        self.updates = Updates("drrn_retriever", parameters, training.retriever_learning_rate, training.clip)
        self._reused: list[Transition] = []

    def add(self, step: Transition) -> None:
        """Collect a step, if it is one to learn from."""
        told = step.decision.source == "reuse" and not step.result.rescored
        if told and self.updates.adam is not None and step.trace.matched_key is not None:  # some cases have no key
            self._reused.append(step)

    def update(self) -> float | None:
        """One step on what was collected; the mean loss, None if there was nothing."""
        steps, self._reused = self._reused, []
        if self.retriever is None or not steps:
            return None
        encoder, quantizer = self.retriever.encoder, self.retriever.quantizer
        modules = (encoder, quantizer)
        with torch.random.fork_rng():
            torch.manual_seed(int(self.streams.numpy("drrn-retriever").integers(2**62)))  # dropout
            for module in modules:
                module.train()
            contexts = encoder.contexts_of_pairs(_pairs(steps))  # [n, d]
            keys = torch.stack([step.trace.matched_key for step in steps])
            similarity = quantizer.similarity(contexts, keys)  # [n]
            failed = torch.tensor([step.result.reward <= 0 for step in steps]).to(similarity)
            loss = contrastive_loss(similarity, failed, margin=self.margin).sum()
            done = self.updates.step(loss + quantizer.regularizer(contexts))
            for module in modules:
                module.train(False)
        if done:
            quantizer.maintain(contexts.detach(), self.streams.torch("drrn-maintain"))
        return loss.item() / len(steps)


def _pairs(steps: Sequence[Transition]) -> list[tuple[object, tuple[str, ...]]]:
    """(situation, seeds) of the contexts for which cases were reused."""
    return [(step.trace.situation, step.decision.chosen.seeds) for step in steps if step.decision.chosen]
