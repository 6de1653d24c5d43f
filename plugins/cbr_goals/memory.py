"""The memory of goal cases: what all of them together say for a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from cbr_goals import fitting
from cbr_goals.config import EvidenceConfig
from cbr_goals.files import EVIDENCE_FILE, MEND, TRIES_FILE, Try, read_evidence, write_evidence
from cbr_goals.kernel import Kernel, KernelIndex
from cbr_goals.kinds import ALL, Kind, kinds_of
from cbr_memory.columns import preference
from cbr_memory.memory import CaseMemory
from cbrcore.errors import CbrError, RunFolderError
from cbrcore.interfaces import Build, RetainItem
from cbrcore.types import Case, Match, Provenance

FULL = ("first.full", "second.full")


def evidence_memory(config: EvidenceConfig, build: Build) -> EvidenceMemory:
    """The memory that a recipe describes.

    Raises:
        CbrError: the recipe's quantizer is not the kernel.
    """
    index, tried = (build.index() if build.index else None for _ in range(2))
    if not isinstance(index, KernelIndex) or not isinstance(tried, KernelIndex):
        raise CbrError("the memory evidence needs the kernel", hint="write 'quantizer: {use: cbr_goals/kernel}'")
    return EvidenceMemory(index, tried, identity=build.identity, threshold=config.threshold, nu=config.nu)


class EvidenceMemory(CaseMemory):
    """Cases, each with its game of origin; what was tried, right or wrong; and weights.

        S(g) = w0 cos(first name, second name) + wC pair + w1 log(sum of k(g, c) over cases and plus + e^w2)
               - nu sum of k(g, c) over minus
        p(g) = sigmoid(a S(g) + b)

    w0 counts where both names have the view `full`, wC where keys hold the value of a pair feature; else they
    are 0.

    Args:
        index, tried: two empty indexes of the kernel, for cases and for tries.

    Attributes:
        weights: w0, wC, w1, w2, a, b; theta is the kernel's.
        tries: what was tried -> whether it was right, in the order of the rows of `tried`.
        figures: of the last fit; none before.
    """

    def __init__(
        self,
        index: KernelIndex,
        tried: KernelIndex,
        *,
        identity: str = "",
        threshold: float = 0.0,
        nu: float = 2.0,
    ) -> None:
        super().__init__(index, identity=identity, threshold=threshold)
        self.nu = nu
        self.tries: dict[Try, bool] = {}
        self.figures: Mapping[str, float | None] = {}
        self._evidence, self._tried = index, tried
        layout = self.kernel.layout
        self._named, self._paired = {*FULL} <= {*layout.names}, layout.pair
        plain = fitting.Weights()
        self._before = replace(plain, w0=plain.w0 * self._named, wC=plain.wC * self._paired)
        self.weights = self._before
        self._kinds: tuple[tuple[int, int], tuple[Kind, ...]] | None = None

    def __repr__(self) -> str:
        return f"EvidenceMemory({len(self)} cases, {len(self.tries)} tries, {self.weights})"

    @property
    def kernel(self) -> Kernel:
        """Of both indexes."""
        return self._evidence.kernel

    # -- retrieve ------------------------------------------------------------------------------------------------

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of goals that the cases know. Looked up anew only when a case came or went."""
        stamp = (len(self.cases), self._next_id)
        if self._kinds is None or self._kinds[0] != stamp:
            self._kinds = stamp, kinds_of(self.cases, self._evidence.device)
        return self._kinds[1]

    def speakers(self, keys: Tensor, kind: Kind) -> list[Case]:
        """For each key [n, d] the most similar case of a kind, see `retrieve`."""
        similarities = self.index.similarities(keys)  # [n, m]
        rows = range(len(self.cases)) if kind.rows is None else kind.rows.tolist()
        if kind.rows is not None:
            similarities = similarities[:, kind.rows]  # [n, r]
        best = similarities == similarities.amax(dim=1, keepdim=True)
        return [max((self.cases[rows[at]] for at in row.nonzero()[:, 0].tolist()), key=preference) for row in best]

    def weigh(
        self,
        keys: Tensor,
        plus: Tensor | None = None,
        minus: Tensor | None = None,
        among: Tensor | None = None,
    ) -> Tensor:
        """[n] float64: p of the goals with these keys [n, d]; `plus` and `minus` [m, d] are the keys of the
        running episode's goals that were rewarded, and that failed. `among` [r]: rows of the cases that count."""
        return (self.weights.a * self.scores(keys, plus, minus, among) + self.weights.b).sigmoid()

    def scores(
        self,
        keys: Tensor,
        plus: Tensor | None = None,
        minus: Tensor | None = None,
        among: Tensor | None = None,
    ) -> Tensor:
        """[n] float64: S of these goals, see `weigh`."""
        total, weights = self._evidence.total(keys, among), self.weights
        if plus is not None:
            total = total + self.kernel.matrix(keys, plus).sum(dim=1)
        names, pair = self._own(keys)
        found = weights.w0 * names + weights.wC * pair
        found = found + weights.w1 * (total + total.new_tensor(weights.w2).exp()).log()
        return found if minus is None else found - self.nu * self.kernel.matrix(keys, minus).sum(dim=1)

    def _own(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """[n] float64 each: the cosine of the two full names of a key [n, d], and the value of its pair."""
        nothing = keys.new_zeros(len(keys)).double()
        names = self.kernel.view_cosine(keys, *FULL) if self._named else nothing
        return names, keys[:, -1].double() if self._paired else nothing

    def retrieve(self, keys: Tensor) -> list[list[Match]]:
        """For each key [n, d] the most similar case; its relevance is p of the key, if that is above tau."""
        if not len(self) or not len(keys):
            return [[] for _ in range(len(keys))]
        found = zip(self.speakers(keys, ALL), self.weigh(keys).tolist(), strict=True)
        return [[Match(case, p)] if p > self.threshold else [] for case, p in found]

    # -- revise --------------------------------------------------------------------------------------------------

    def note_outcome(self, item: RetainItem, provenance: Provenance, *, failed: bool, step: int) -> None:
        """Keep what was tried: right where it was rewarded (and right it stays), wrong where it failed."""
        right = item.reward > 0
        if item.key is None or not item.action.entities or not (right or failed):
            return
        tried = Try(provenance.game, item.action.template, item.action.entities)
        if tried not in self.tries:
            self._tried.add(item.key.unsqueeze(0))
        self.tries[tried] = right or self.tries.get(tried, False)

    def fit(self) -> Mapping[str, float | None]:
        """Fit all weights, those of the kernel too, to what was tried with the templates of the cases (`fitting`).

        Where nothing can be learned (no case, no object with a right and a wrong try) all stay as they are.

        Returns:
            The figures: the weights ("theta.first.full", "w0" ...), how many cases, tries and lists there were,
            and `wrong_tries`, how many wrong tries an object costs, by cases of other games alone.
        """
        tried = self._as_tried()
        if tried is not None and tried.lists:
            found = fitting.fit(tried, self.kernel.start, self._before)
            self.kernel.set_weights(found.theta)
            self.weights = found.weights
            theta = zip(self.kernel.layout.names, found.theta.tolist(), strict=True)
            self.figures = dict(found.figures) | {f"theta.{name}": value for name, value in theta}
        return self.figures

    def facts(self) -> Mapping[str, float | None]:
        """For the results: those of every memory, and the figures of the last fit."""
        return {**super().facts(), **self.figures}

    def _as_tried(self) -> fitting.Tried | None:
        """What the fit needs to know; None where there is nothing."""
        picked = self._picked()
        if not picked or not len(self):
            return None
        tries, right = [tried for _, tried, _ in picked], [good for *_, good in picked]
        rows = torch.stack(self._tried.numbers(), dim=1)[[row for row, *_ in picked]]  # [R, 2]
        keys = self._tried.keys()[[row for row, *_ in picked]]
        names, pair = self._own(keys)
        games = [*(tried.game for tried in tries), *(case.provenance.game for case in self.cases)]
        numbers = {game: number for number, game in enumerate(dict.fromkeys(games))}
        cases, tried_names = self._evidence.names, self._tried.names
        first, second = (here.cosines(there.units()) for here, there in zip(cases, tried_names, strict=True))
        known = torch.stack(self._evidence.numbers(), dim=1)  # [M, 2]
        of_tries = fitting.numbered(rows[:, 0].tolist(), [tried.entities[0] for tried in tries])
        of_cases = fitting.numbered(known[:, 0].tolist(), [(*case.entities, "")[0] for case in self.cases])
        rows[:, 0], known[:, 0] = (rows.new_tensor(which) for _, which in (of_tries, of_cases))
        (vectors, mine), (others, theirs) = (zip(*found, strict=True) for found, _ in (of_tries, of_cases))
        return fitting.Tried(
            first=first[list(vectors)][:, list(others)],
            second=second,
            another=torch.tensor([[name != other for other in theirs] for name in mine], device=rows.device),
            rows=rows,
            cases=known,
            names=names,
            pair=pair,
            right=torch.tensor(right, device=rows.device),
            game=torch.tensor([numbers[tried.game] for tried in tries], device=rows.device),
            origin=torch.tensor([numbers[case.provenance.game] for case in self.cases], device=rows.device),
            groups=fitting.grouped([(tried.game, tried.entities[0]) for tried in tries]),
        )

    def _picked(self) -> list[tuple[int, Try, bool]]:
        """(row of `tried`, what was tried, right) with the templates of cases, once per game and entities: a right
        one first, else the oldest."""
        templates = {template for kind in self.kinds() for template in kind.templates}
        picked: dict[tuple[str, tuple[str, ...]], tuple[int, Try, bool]] = {}
        for row, (tried, right) in enumerate(self.tries.items()):
            known = picked.get((tried.game, tried.entities))
            if tried.template in templates and (known is None or (right and not known[2])):
                picked[tried.game, tried.entities] = (row, tried, right)
        return list(picked.values())

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, folder: Path, *, weights: str = "") -> None:
        """Write cases, tries and weights into `folder`; see `CaseMemory.save`."""
        write_evidence(folder, self.weights, self.figures, self.tries, self._tried.tensors())
        super().save(folder, weights=weights)

    def load(self, folder: Path) -> None:
        """Replace everything by what `save` wrote; theta comes with the kernel.

        Raises:
            RunFolderError: files are missing or damaged, or the keys were made by other encoders.
        """
        stored, tensors = read_evidence(folder)
        self._kinds = None
        super().load(folder)
        try:
            self._tried.load_tensors(tensors)
        except (LookupError, RuntimeError) as error:
            raise RunFolderError(f"{folder / TRIES_FILE}: {error}", hint=MEND) from error
        self.weights, self.tries = stored.found()
        if len(self.tries) != len(self._tried):
            told = f"{len(self._tried)} keys, but {EVIDENCE_FILE} holds {len(self.tries)} tries"
            raise RunFolderError(f"{folder / TRIES_FILE}: {told}", hint=MEND)
        self.figures = stored.figures
