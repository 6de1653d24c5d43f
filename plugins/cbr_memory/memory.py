"""The case memory M: a set of (key, action) pairs over an exact or approximate key index [P §3, §4.2]."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cbr_keys.best import Best, FindsBest, best_of
from cbr_keys.numbered import Numbered
from cbr_keys.places import RemovesRows
from cbr_memory.columns import SituationsById, preference
from cbr_memory.config import CaseMemoryConfig
from cbr_memory.eviction import eviction
from cbr_memory.files import fitting, read_cases, write_cases
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import Build, KeyIndex, RetainItem, Situation, StoredCases
from cbrcore.types import Case, Match, Provenance

if TYPE_CHECKING:
    from torch import Tensor

PAIR_END = 4
"""So many bytes of a pair are the number of the template; those before it are the key."""


def case_memory(config: CaseMemoryConfig, build: Build) -> CaseMemory:
    """The memory that a recipe describes.

    Raises:
        CbrError: there is no quantizer whose keys it could hold.
    """
    if build.index is None:
        raise CbrError("a case memory needs a quantizer", hint="add a quantizer to the recipe")
    kept = partial(CaseMemory, identity=build.identity, capacity=config.capacity, eviction=config.eviction)
    return kept(
        build.index(),
        threshold=config.threshold,
        neighbours=config.neighbours,
        failures=kept(build.index()) if config.outcome == "both" else None,
    )


class CaseMemory:
    """Cases by row, the oldest first (so that their numbers ascend), their keys in the index in the same order.

    M is a set: an equal (key, template) pair is not stored twice, its counters are updated instead.

    What is done in each step costs the same however many cases there are, but for similarities, if the index
    `RemovesRows`.

    Args:
        index: an empty index made by the quantizer whose keys will be stored.
        identity: what made the keys (encoders, quantizer); memories of different identity do not mix.
        capacity: most cases kept, None for no limit.
        threshold: tau.
        neighbours: so many of the most similar cases of a context vote on the template; 1: the most similar one
            decides, as in the paper.
        failures: cases that failed when they were reused; None if they are not kept.
        eviction: "oldest" drops the case retained first, "least_used" the one least often rewarded or reused,
            "least_successful" the one whose reuses were rewarded least (the older one among equals).
    """

    def __init__(
        self,
        index: KeyIndex,
        *,
        identity: str = "",
        capacity: int | None = None,
        eviction: str = "oldest",
        threshold: float = 0.7,
        neighbours: int = 1,
        failures: CaseMemory | None = None,
    ) -> None:
        self.index = index
        self.threshold = threshold
        self.neighbours = neighbours
        self.failures = failures
        self.identity = identity
        self.capacity = capacity
        self.eviction = eviction
        self._next_id = 0
        self._clear()

    def _clear(self) -> None:
        self._leaving, self._cases = eviction(self.eviction)
        self._templates: Numbered[str] = Numbered()
        self._known: dict[bytes, int] = {}  # (key, template) -> id
        self._pairs: list[bytes] = []  # by row

    def __len__(self) -> int:
        return len(self._cases)

    @property
    def cases(self) -> Sequence[Case]:
        """By row."""
        return self._cases

    @property
    def situations(self) -> Mapping[int, Situation]:
        """Case id -> what its key was made of, beside its seeds."""
        return SituationsById(self._cases)

    def facts(self) -> Mapping[str, float | None]:
        """For the results: how many different keys answer, however many cases share one."""
        return {"prototypes": len({pair[:-PAIR_END] for pair in self._pairs})}

    def __repr__(self) -> str:
        return f"CaseMemory({len(self)} cases, capacity={self.capacity}, index={self.index!r})"

    def add(self, item: RetainItem, provenance: Provenance, *, step: int) -> Case:
        """Retain a case, or count its reward if an equal (key, template) pair is there already.

        A step that several rewards have retained, as with a window of k > 1 steps, is one reward: it is counted
        with the first (`RetainItem.retained`).

        Args:
            item: with a key, of shape [...]; its situation is kept beside a new case.
            step: environment steps of the run so far; tells which case is the more recent one.
        """
        key, action = item.key, item.action
        assert key is not None, "an item without a key cannot be stored"
        pair = self._pair(key, action.template)
        known = self._known_case(pair)
        if known is not None:
            known.rewarded += provenance.reward > 0 and not item.retained
            known.last_step = step
            return known
        case = Case(
            id=self._next_id,
            template=action.template,
            entities=action.entities,
            text=action.text,
            provenance=provenance,
            rewarded=int(provenance.reward > 0),
            last_step=step,
            seeds=action.seeds,
        )
        self.index.add(key.unsqueeze(0))
        case = self._put(case, pair, item.situation)
        self._evict()
        return case

    def similarities(self, keys: Tensor) -> Tensor:
        """[n, len(self)]: of each key [n, ...] to each case; -inf where an approximate index does not look."""
        return self.index.similarities(keys)

    def retrieve(self, keys: Tensor) -> list[list[Match]]:
        """For each key [n, ...] the most similar case with relevance above tau (several only if they tie); where
        failures are kept, with the relevance of the most similar one of the same template."""
        found = self.query(keys, threshold=self.threshold, neighbours=self.neighbours)
        if self.failures is None:
            return found
        rows = [row for row, matches in enumerate(found) for _ in matches]
        templates = [match.case.template for matches in found for match in matches]
        against = iter(self.failures.nearest(keys[rows], templates))
        return [[replace(match, against=next(against)) for match in matches] for matches in found]

    def query(self, keys: Tensor, *, threshold: float, neighbours: int = 1) -> list[list[Match]]:
        """For each key [n, ...] the most similar case, if its relevance is above `threshold` (strict).

        Similarities are discrete and tie often. Of the cases tied at the maximum, one per template is
        returned: the more often rewarded one, then the more recent one. Several neighbours vote, see `_elect`.
        """
        if not len(self) or not len(keys):
            return [[] for _ in range(len(keys))]
        if neighbours == 1:
            best = self._best_above(keys, threshold)
            return [self._one_per_template(*each) if each else [] for each in best]
        similarities = self.similarities(keys)
        above = (similarities.amax(dim=1) > threshold).tolist()
        return [
            [self._elect(row, threshold, neighbours)] if some else []
            for row, some in zip(similarities, above, strict=True)
        ]

    def _best_above(self, keys: Tensor, threshold: float) -> list[Best | None]:
        if isinstance(self.index, FindsBest):
            return self.index.best_above(keys, threshold)
        return best_of(self.similarities(keys), threshold)

    def _elect(self, similarities: Tensor, threshold: float, neighbours: int) -> Match:
        """The most similar cases [m] vote on the template, each with its relevance; the most similar case of the
        template that wins speaks for it (a tie goes to the template with the more similar case)."""
        least = similarities.topk(min(neighbours, len(similarities))).values[-1]
        above = ((similarities > threshold) & (similarities >= least)).nonzero().flatten().tolist()
        voters = [Match(self.cases[row], float(similarities[row])) for row in above]
        voters.sort(key=lambda match: (match.relevance, *preference(match.case)), reverse=True)
        votes: dict[str, float] = defaultdict(float)
        for match in voters[:neighbours]:
            votes[match.case.template] += match.relevance
        winner = max(votes, key=lambda template: votes[template])  # the first of equals is the more similar one
        return next(match for match in voters if match.case.template == winner)

    def nearest(self, keys: Tensor, templates: Sequence[str]) -> list[float]:
        """For each key [n, ...] the highest similarity among the cases of its template, 0 if there is none."""
        if not len(self) or not len(keys):
            return [0.0] * len(keys)
        similarities = self.index.similarities(keys).cpu().numpy()  # [n, m]
        columns = {each: self._cases.with_template(each) for each in set(templates)}
        own = [row[columns[template]] for row, template in zip(similarities, templates, strict=True)]
        return [float(values.max()) if len(values) else 0.0 for values in own]

    def _one_per_template(self, relevance: float, tied: Sequence[int]) -> list[Match]:
        """Of the cases in these rows, which are equally relevant, the preferred one of each template."""
        return [Match(case, relevance) for case in self._cases.preferred(tied)]

    def key_of(self, case: Case) -> Tensor:
        """The stored key [...] of a case; ValueError if it is not here."""
        row = self._row(case)
        if isinstance(self.index, RemovesRows):
            return self.index.key(row)
        return self.index.keys()[row].clone()  # not the whole buffer

    def note_outcome(self, item: RetainItem, provenance: Provenance, *, failed: bool, step: int) -> None:
        """Negative evidence: keep a reuse that earned nothing; forget it when the same earns something."""
        if self.failures is None or item.key is None:
            return
        if provenance.reward > 0:
            self.failures.discard(item.key, item.action.template)
        elif failed:
            self.failures.add(item, provenance, step=step)

    def stores(self) -> dict[str, CaseMemory]:
        """All that is remembered, by name."""
        return {"memory": self} | ({"failures": self.failures} if self.failures is not None else {})

    def discard(self, key: Tensor, template: str) -> None:
        """Forget the case with this key and template, if there is one."""
        case = self._known_case(self._pair(key, template))
        if case is not None:
            self._remove(self._cases.row(case.id))

    def replace_keys(self, keys: Tensor) -> None:
        """Give the cases new keys [len(self), ...]. Of cases that become equal the preferred one stays, with the
        counts of all."""
        kept: dict[bytes, Case] = {}
        for key, case in zip(keys, self._cases, strict=True):
            pair = self._pair(key, case.template)
            if pair in kept:
                case, other = sorted((kept[pair], case), key=preference, reverse=True)
                _count_also(case, other)
            kept[pair] = case
        staying = sorted((case.id, pair) for pair, case in kept.items())
        rows = [self._cases.row(number) for number, _ in staying]
        self.index.keep([])
        self.index.add(keys[rows])
        self._cases.keep(rows)
        self._known, self._pairs = {pair: number for number, pair in staying}, [pair for _, pair in staying]

    def _pair(self, key: Tensor, template: str) -> bytes:
        """Equal for equal keys and templates."""
        return _bytes(key) + self._templates.number(template).to_bytes(PAIR_END)

    def _known_case(self, pair: bytes) -> Case | None:
        number = self._known.get(pair)
        return None if number is None else self._cases.get(number)

    def _put(self, case: Case, pair: bytes, situation: Situation) -> Case:
        """Take in a case whose key is in the index, or will be, as the last one."""
        self._known[pair] = case.id
        self._pairs.append(pair)
        self._next_id = case.id + 1
        return self._cases.append(case, situation)

    def _full(self) -> bool:
        return self.capacity is not None and len(self) > self.capacity

    def _evict(self) -> None:
        if self._full():
            self._remove(self._leaving.first(self._cases))

    def _row(self, case: Case) -> int:
        if self._cases.get(case.id) != case:
            raise ValueError(f"not in this memory: {case!r}")
        return self._cases.row(case.id)

    def _remove(self, row: int) -> None:
        if isinstance(self.index, RemovesRows):
            self.index.remove(row)
        else:
            self.index.keep([other for other in range(len(self)) if other != row])
        self._cases.remove(row)
        del self._known[self._pairs.pop(row)]

    def save(self, folder: Path, *, weights: str = "") -> None:
        """Write the cases into `folder`: enough to use them elsewhere (`cbr_memory.files`).

        Args:
            weights: a digest of the parameters that made the keys.
        """
        keys = self.index.keys() if len(self) else None
        situations = [self._cases.situation(row) for row in range(len(self))]
        write_cases(folder, StoredCases(self.cases, keys, situations, self.identity, weights, self._next_id))

    def read(self, folder: Path) -> StoredCases:
        """What `save` wrote, by whichever run. RunFolderError: files are missing or damaged."""
        return read_cases(folder)

    def load(self, folder: Path) -> None:
        """Replace the contents by what `save` wrote.

        Raises:
            RunFolderError: files are missing or damaged, or the keys were made by other encoders.
        """
        stored = self.read(folder)
        if stored.identity != self.identity:
            raise RunFolderError(
                f"{folder}: these cases were stored with other encoders.\n"
                f"  stored: {stored.identity}\n  now:    {self.identity}",
                hint="use the recipe that stored them (recipe.yaml in the run folder)",
            )
        if stored.keys is not None:
            fitting(stored.keys, self.index, folder)
        self.index.keep([])
        self._next_id = 0
        self._clear()
        self.merge(stored, stored.keys)
        self._next_id = max(self._next_id, stored.next_id)  # numbers ascend

    def merge(self, stored: StoredCases, keys: Tensor | None) -> None:
        """Add stored cases with these keys [len(stored.cases), ...]. A case that is here already is counted; the
        others keep their numbers if these are free. RunFolderError: the keys are no keys of the quantizer."""
        if keys is not None:
            fitting(keys, self.index)
        waiting: list[Tensor] = []  # keys that are added together
        for case, situation, key in zip(
            stored.cases, stored.situations, () if keys is None else keys, strict=True
        ):
            pair = self._pair(key, case.template)
            known = self._known_case(pair)
            if known is not None:
                _count_also(known, case)
                continue
            self._put(replace(case, id=max(case.id, self._next_id)), pair, situation)
            waiting.append(key)
            if self._full():
                self._add_keys(waiting)
                self._evict()
        self._add_keys(waiting)

    def _add_keys(self, waiting: list[Tensor]) -> None:
        import torch

        if waiting:
            self.index.add(torch.stack(waiting))
            waiting.clear()


def _bytes(key: Tensor) -> bytes:
    """Equal for equal keys. Those of whole numbers below 256 take a byte each, whatever their type."""
    values = key.detach().cpu().contiguous().numpy()
    small = values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() < 256
    return (values.astype(np.uint8) if small else values).tobytes()


def _count_also(stays: Case, other: Case) -> None:
    """Add the counts of an equal case."""
    stays.rewarded += other.rewarded
    stays.reused += other.reused
    stays.reuse_rewarded += other.reuse_rewarded
    stays.last_step = max(stays.last_step, other.last_step)
