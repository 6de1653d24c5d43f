"""Pretraining of the retriever [P §5]: similar contexts for rewarded actions of the same template.

A baseline agent collects (situation, seeds, template, reward). Positive pairs: two rewarded items of the
same template. Negative pairs: two rewarded items of different templates, and - our addition - a rewarded
item with an unrewarded one of the same template. Without the latter everything on TWC collapses into one
cluster, since only two templates are ever rewarded there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cbr_a2c.contrastive import contrastive_loss
from cbr_a2c.optimizer import GuardedAdam
from cbr_a2c.windows import training_mode
from cbr_pretrain.config import PretrainConfig
from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import Situation
from cbrcore.rng import Streams, derive_seed
from cbrcore.types import EntityTuple

log = logging.getLogger(__name__)

MEASURED = 256
"""Pairs of each kind whose similarity is measured before and after."""

MOST_BATCHES = 50
"""Updates per epoch at most; with many games there are more pairs than anybody needs."""


@dataclass(frozen=True)
class Experience:
    """One executed action of the collecting agent. Hashable: repeated experience counts once."""

    situation: Situation
    seeds: EntityTuple
    template: str
    rewarded: bool


class PairSampler:
    """Draws positive and negative pairs, half of each, from collected experience.

    Experience that repeats is used once; an item seen both with and without a reward counts as rewarded
    (an object put back in its place earns nothing the second time).
    """

    def __init__(self, experience: Sequence[Experience], rng: np.random.Generator) -> None:
        self._rng = rng
        rewarded = {(e.situation, e.seeds, e.template): e for e in experience if e.rewarded}
        templates = {e.template for e in rewarded.values()}
        failed = {
            (e.situation, e.seeds, e.template): e for e in experience if not e.rewarded and e.template in templates
        }
        self.rewarded = list(rewarded.values())
        self.failed = [e for key, e in failed.items() if key not in rewarded]
        self._by_template = {t: [e for e in self.rewarded if e.template == t] for t in sorted(templates)}
        self._failed_by_template = {t: [e for e in self.failed if e.template == t] for t in sorted(templates)}

    def __repr__(self) -> str:
        return f"PairSampler({len(self.rewarded)} rewarded, {len(self.failed)} not)"

    def __len__(self) -> int:
        """How many distinct items there are."""
        return len(self.rewarded) + len(self.failed)

    @property
    def pairs(self) -> int:
        """How many pairs there are: each rewarded item with every other item."""
        return len(self.rewarded) * (len(self) - 1)

    def draw(self, count: int) -> tuple[list[Experience], list[Experience], list[bool]]:
        """`count` pairs: left items (rewarded), right items, and whether the pair is a negative one. Where an item
        has no partner of the kind whose turn it is, the pair is of the other kind; none is of an item with itself.
        There has to be a pair (`pairs`)."""
        left = [self._pick(self.rewarded) for _ in range(count)]
        negative = [
            self._has_negative(item) and (row % 2 == 1 or not self._has_positive(item))
            for row, item in enumerate(left)
        ]
        right = [
            self._negative(item) if is_negative else self._positive(item)
            for item, is_negative in zip(left, negative, strict=True)
        ]
        return left, right, negative

    def kinds(self, count: int) -> dict[str, list[tuple[Experience, Experience]]]:
        """At most `count` random pairs of each kind, see `PairSimilarities`; no pair of an item with itself."""
        found: dict[str, list[tuple[Experience, Experience]]] = {"same": [], "different": [], "failed": []}
        for item in (self._pick(self.rewarded) for _ in range(count if self.rewarded else 0)):
            same = [e for e in self._by_template[item.template] if e != item]
            failed = self._failed_by_template[item.template]
            for kind, group in (("same", same), ("different", self._of_other_templates(item)), ("failed", failed)):
                if group:
                    found[kind].append((item, self._pick(group)))
        return found

    def _has_positive(self, item: Experience) -> bool:
        return len(self._by_template[item.template]) > 1

    def _positive(self, item: Experience) -> Experience:
        """Another rewarded item of the same template."""
        group = self._by_template[item.template]
        drawn = self._pick(group[:-1])
        return group[-1] if drawn is item else drawn

    def _has_negative(self, item: Experience) -> bool:
        return len(self._by_template) > 1 or bool(self._failed_by_template[item.template])

    def _negative(self, item: Experience) -> Experience:
        """An unrewarded item of the same template, or a rewarded one of another template."""
        others = self._of_other_templates(item)
        failed = self._failed_by_template[item.template]
        use_failed = bool(failed) and (not others or self._rng.random() < 0.5)
        return self._pick(failed if use_failed else others)

    def _of_other_templates(self, item: Experience) -> list[Experience]:
        return [e for template, group in self._by_template.items() if template != item.template for e in group]

    def _pick(self, items: Sequence[Experience]) -> Experience:
        return items[int(self._rng.integers(len(items)))]


@dataclass(frozen=True)
class PairSimilarities:
    """Mean similarity of pairs, in evaluation mode; None where there is no such pair.

    Attributes:
        same: two rewarded actions of the same template.
        different: two rewarded actions of different templates.
        failed: a rewarded and an unrewarded action of the same template.
    """

    same: float | None = None
    different: float | None = None
    failed: float | None = None


@dataclass(frozen=True)
class PretrainReport:
    """What pretraining reached; the shares are over the last epoch's pairs.

    Attributes:
        before, after: similarities of pairs with the initial weights (and codebooks that fit their contexts), and
            with the trained ones.
    """

    items: int
    rewarded: int
    epochs: int = 0
    positives_above_tau: float = 0.0
    negatives_above_tau: float = 0.0
    before: PairSimilarities = PairSimilarities()
    after: PairSimilarities = PairSimilarities()


def pretrain_retriever(
    retriever: Retriever,
    experience: Sequence[Experience],
    config: PretrainConfig,
    *,
    margin: float,
    clip: float,
    streams: Streams,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PretrainReport:
    """Train encoder and quantizer on pairs; the codebooks start from the contexts of the experience, which
    is all that is trained where there are no pairs (of all experience if nothing was rewarded).

    `progress` is called with (epochs done, epochs at most), to the last of them: those that are not needed too.
    """
    sampler = PairSampler(experience, streams.numpy("pretrain-pairs"))
    items = sampler.rewarded + sampler.failed or list(dict.fromkeys(experience))
    with torch.no_grad():
        contexts = retriever.encoder.contexts_of_pairs([(e.situation, e.seeds) for e in items])
        retriever.quantizer.fit(contexts, streams.torch("fit"))
    if not sampler.pairs:
        _leave_out(0, config, progress)
        log.warning("only the codebooks were pretrained: %s", _why_no_pairs(sampler))
        return PretrainReport(len(sampler), len(sampler.rewarded))
    parameters = retriever.parameters()
    optimizer = GuardedAdam("pretraining", parameters, learning_rate=config.learning_rate, clip=clip)
    report = PretrainReport(len(sampler), len(sampler.rewarded))
    before = measure_similarities(retriever, experience, streams.seed)
    batches = min(MOST_BATCHES, max(1, sampler.pairs // config.batch_size))
    for epoch in range(1, config.epochs + 1):
        found = [_train_batch(retriever, sampler, optimizer, config, margin, streams) for _ in range(batches)]
        above, negative = (torch.cat(column) for column in zip(*found, strict=True))
        report = _report(sampler, epoch, above, negative)
        progress(epoch, config.epochs)
        log.debug("pretraining epoch %d/%d: %s", epoch, config.epochs, report)
        if _separated(report, config):
            _leave_out(epoch, config, progress)
            break
    return replace(report, before=before, after=measure_similarities(retriever, experience, streams.seed))


def _leave_out(done: int, config: PretrainConfig, progress: Callable[[int, int], None]) -> None:
    """The remaining epochs are not needed, which is said; whoever shows progress comes to its end."""
    if 0 < done < config.epochs:
        log.info("pretraining ends after %d of %d epochs: the pairs are told apart", done, config.epochs)
    for epoch in range(done + 1, config.epochs + 1):
        progress(epoch, config.epochs)


def _why_no_pairs(sampler: PairSampler) -> str:
    kind = "one action was rewarded, and nothing like it failed" if sampler.rewarded else "no action was rewarded"
    return f"{kind} while collecting experience, so there are no pairs"


def measure_similarities(retriever: Retriever, experience: Sequence[Experience], seed: int) -> PairSimilarities:
    """Mean similarity of the kinds of pairs in experience; random pairs, the same for the same seed."""
    sampler = PairSampler(experience, np.random.default_rng(derive_seed(seed, "similarities")))
    kinds = sampler.kinds(MEASURED)
    return PairSimilarities(**{kind: _mean_similarity(retriever, pairs) for kind, pairs in kinds.items()})


def _mean_similarity(retriever: Retriever, pairs: Sequence[tuple[Experience, Experience]]) -> float | None:
    if not pairs:
        return None
    with torch.no_grad():
        sides = [
            retriever.encoder.contexts_of_pairs([(pair[side].situation, pair[side].seeds) for pair in pairs])
            for side in (0, 1)
        ]
        return float(retriever.quantizer.pair_similarity(*sides).mean())


def _train_batch(
    retriever: Retriever,
    sampler: PairSampler,
    optimizer: GuardedAdam,
    config: PretrainConfig,
    margin: float,
    streams: Streams,
) -> tuple[Tensor, Tensor]:
    """One update; returns for each pair whether its similarity is above tau, and whether it is negative."""
    left, right, negative = sampler.draw(config.batch_size)
    encoder, quantizer = retriever.encoder, retriever.quantizer
    with training_mode(encoder, quantizer, streams=streams, name="pretrain-update"):
        contexts = encoder.contexts_of_pairs([(e.situation, e.seeds) for e in left + right])  # [2n, d]
        similarity = quantizer.pair_similarity(contexts[: len(left)], contexts[len(left) :])  # [n]
        dissimilar = torch.tensor(negative, dtype=similarity.dtype, device=similarity.device)
        loss = contrastive_loss(similarity, dissimilar, margin=margin).mean()
        if optimizer.step(loss + quantizer.regularizer(contexts)):
            quantizer.maintain(contexts.detach(), streams.torch("maintain"))
    return (similarity.detach() > retriever.threshold).cpu(), torch.tensor(negative)


def _report(sampler: PairSampler, epoch: int, above: Tensor, negative: Tensor) -> PretrainReport:
    def share(rows: Tensor) -> float:
        return float(above[rows].float().mean()) if bool(rows.any()) else 0.0

    return PretrainReport(len(sampler), len(sampler.rewarded), epoch, share(~negative), share(negative))


def _separated(report: PretrainReport, config: PretrainConfig) -> bool:
    goal = config.positives_above
    return report.positives_above_tau >= goal and report.negatives_above_tau <= 1 - goal
