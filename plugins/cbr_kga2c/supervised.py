"""A2C with the supervised losses of KG-A2C's decoders, minimised in one step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from cbr_a2c.learner import A2cLearner
from cbr_kga2c.config import SupervisedConfig
from cbr_kga2c.decoder import Decoded, DecoderAgent
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, PolicyOutput, Stopwatch
from cbrcore.types import Transition

if TYPE_CHECKING:
    from cbrcore.config import TrainingConfig
    from cbrcore.cycle.reasoner import CaseBasedReasoner
    from cbrcore.rng import Streams

TEMPLATES, ADMISSIBLE = "kga2c:templates", "kga2c:admissible"


def template_loss(scores: Tensor, valid: Tensor) -> Tensor:
    """L_T = -sum_t [y_t log pi(t) + (1 - y_t) log(1 - pi(t))], y_t = 1 if t is a template of an admissible
    command; summed over the states.

    Args:
        scores: of T templates in n states [n, T]; pi is their softmax.
        valid: y [n, T].
    """
    return F.binary_cross_entropy(scores.softmax(dim=1), valid.to(scores), reduction="sum")


def object_loss(slots: Sequence[Tensor], valid: Sequence[int]) -> Tensor:
    """L_O = -sum_j sum_o [y_o log pi_j(o) + (1 - y_o) log(1 - pi_j(o))], y_o = 1 if o is an object of an
    admissible command; of each slot j the mean over the situations in which its object is decoded.

    Args:
        slots: log pi_j over N objects in R situations [R, N], for each slot j.
        valid: the rows of the objects with y_o = 1.
    """
    found = torch.zeros(())
    for log_pi in slots:
        if len(log_pi):
            wanted = torch.zeros_like(log_pi)
            wanted[:, list(valid)] = 1.0
            entropy = F.binary_cross_entropy(log_pi.exp(), wanted, reduction="sum")
            found = found.to(entropy) + entropy / len(log_pi)
    return found


class DecoderLosses:
    """The losses beside A2C's; they need the templates that a state does not admit.

    Attributes:
        templates: those that were admissible anywhere in this run so far, in the order in which they came.
        admissible: how probable it was, in the mean over the steps of the last update, that what the decoders
            generate freely from all these templates is admissible.
    """

    names: Sequence[str] = ("template", "object")

    def __init__(self, config: SupervisedConfig) -> None:
        self.config = config
        self.templates: dict[str, int] = {}
        self.admissible = 0.0
        self.agent: DecoderAgent

    def learn(self, step: Transition) -> None:
        """Take in the templates of a state."""
        for action in step.observation.admissible:
            self.templates.setdefault(action.template, len(self.templates))

    def losses(self, steps: Sequence[Transition], outputs: Sequence[PolicyOutput]) -> Mapping[str, Tensor]:
        """L_T and L_O, weighted, summed over the steps."""
        decoded = [output for output in outputs if isinstance(output, Decoded)]
        queries = torch.stack([output.query for output in decoded])  # [n, w]
        scores = self.agent.template_scores(queries, list(self.templates))  # [n, T]
        valid = torch.zeros_like(scores, dtype=torch.bool)
        for number, step in enumerate(steps):
            valid[number, [self.templates[action.template] for action in step.observation.admissible]] = True
        generated = torch.stack([output.logits.logsumexp(0) for output in decoded]) - scores.logsumexp(1)  # [n]
        self.admissible = float(generated.detach().exp().mean())
        objects = [object_loss(output.slots, output.valid).to(scores) for output in decoded]
        return {
            "template": self.config.template_weight * template_loss(scores, valid),
            "object": self.config.object_weight * torch.stack(objects).sum(),
        }


class Supervised:
    """Trains a decoder as A2C does, with L_T and L_O of the agent's own steps added to its loss."""

    def __init__(self, config: SupervisedConfig, build: Build) -> None:
        self.beside = DecoderLosses(config)
        self.inner = A2cLearner(config, build, auxiliary=self.beside)

    def __repr__(self) -> str:
        return f"Supervised({len(self.beside.templates)} templates, {self.inner!r})"

    @property
    def skipped(self) -> int:
        """Updates that a loss or gradient that is not finite has cost."""
        return self.inner.skipped

    def begin(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        """Make the optimisers.

        Raises:
            CbrError: the agent has no decoders.
        """
        agent = players[0].agent
        if not isinstance(agent, DecoderAgent):
            raise CbrError("cbr_kga2c/supervised trains decoders", hint="agent: {use: cbr_kga2c/decoder}")
        self.beside.agent = agent
        self.inner.begin(players, training, streams, clock)

    def took_step(self, seat: int, transition: Transition) -> None:
        self.beside.learn(transition)
        self.inner.took_step(seat, transition)

    def round_of_steps_done(self) -> None:
        self.inner.round_of_steps_done()

    def pop_losses(self) -> Mapping[str, float | None]:
        """Those of A2C, `loss_template` and `loss_object`, weighted, per step."""
        return self.inner.pop_losses()

    def metrics(self) -> Mapping[str, float]:
        """generated_admissible: the probability that a freely generated command is admissible."""
        return {"generated_admissible": self.beside.admissible}

    def tensors(self) -> Mapping[str, Tensor]:
        """The optimisers' states, the known templates as the bytes of a JSON list, and the metric."""
        text = json.dumps(list(self.beside.templates)).encode()
        admissible = torch.tensor(self.beside.admissible, dtype=torch.double)
        kept = {TEMPLATES: torch.tensor(list(text), dtype=torch.uint8), ADMISSIBLE: admissible}
        return {**self.inner.tensors(), **kept}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        known = json.loads(bytes(tensors[TEMPLATES].tolist()))
        self.beside.templates = {template: number for number, template in enumerate(known)}
        self.beside.admissible = float(tensors[ADMISSIBLE])
        self.inner.load_tensors(tensors)
