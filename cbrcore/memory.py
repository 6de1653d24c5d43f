"""The case memory M: a set of (key, action) pairs over an exact or approximate key index [P §3, §4.2]."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore.errors import RunFolderError
from cbrcore.interfaces import KeyIndex
from cbrcore.types import Action, Case, Match, Provenance

if TYPE_CHECKING:
    from torch import Tensor

CASES_FILE = "cases.jsonl"
KEYS_FILE = "keys.safetensors"
FACTS = "case_memory"


class CaseMemory:
    """Cases by row, their keys in the index in the same order.

    M is a set: an equal (key, template) pair is not stored twice, its counters are updated instead.

    Args:
        index: an empty index made by the quantizer whose keys will be stored.
        identity: what made the keys (encoders, quantizer); memories of different identity do not mix.
        capacity: most cases kept, None for no limit.
        eviction: "oldest" drops the case retained first, "least_used" the one least often rewarded or reused
            (the older one among equals).
    """

    def __init__(
        self, index: KeyIndex, *, identity: str = "", capacity: int | None = None, eviction: str = "oldest"
    ) -> None:
        self.index = index
        self.identity = identity
        self.capacity = capacity
        self.eviction = eviction
        self.cases: list[Case] = []
        self._rows: dict[tuple[bytes, str], Case] = {}
        self._next_id = 0

    def __len__(self) -> int:
        return len(self.cases)

    def __repr__(self) -> str:
        return f"CaseMemory({len(self)} cases, capacity={self.capacity}, index={self.index!r})"

    def add(self, key: Tensor, action: Action, provenance: Provenance, *, step: int) -> Case:
        """Retain a case, or count it if an equal (key, template) pair is there already.

        Args:
            key: one key, without a batch dimension.
            step: environment steps of the run so far; tells which case is the more recent one.
        """
        pair = (_bytes(key), action.template)
        known = self._rows.get(pair)
        if known is not None:
            known.rewarded += provenance.reward > 0
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
        )
        self._next_id += 1
        self.index.add(key.unsqueeze(0))
        self.cases.append(case)
        self._rows[pair] = case
        self._evict(case)
        return case

    def query(self, keys: Tensor, *, threshold: float) -> list[list[Match]]:
        """Retrieve: for each key [n, ...] the most similar case, if its relevance is above `threshold` (strict).

        Similarities are discrete and tie often. Of the cases tied at the maximum, one per template is
        returned: the more often rewarded one, then the more recent one.
        """
        if not self.cases or not len(keys):
            return [[] for _ in range(len(keys))]
        similarities = self.index.similarities(keys)  # [n, m]
        best = similarities.amax(dim=1)  # [n]
        found: list[list[Match]] = []
        for row, relevance in enumerate(best.tolist()):
            if not relevance > threshold:  # NaN is never above
                found.append([])
                continue
            tied = (similarities[row] == best[row]).nonzero().flatten().tolist()
            found.append(self._one_per_template([self.cases[i] for i in tied], relevance))
        return found

    def _one_per_template(self, tied: Sequence[Case], relevance: float) -> list[Match]:
        chosen: dict[str, Case] = {}
        for case in sorted(tied, key=preference):
            chosen[case.template] = case  # the most preferred comes last
        return [Match(case, relevance) for case in sorted(chosen.values(), key=preference, reverse=True)]

    def key_of(self, case: Case) -> Tensor:
        """The stored key [...] of a case."""
        return self.index.keys()[self.cases.index(case)]

    def _evict(self, newest: Case) -> None:
        if self.capacity is None or len(self.cases) <= self.capacity:
            return
        others = [case for case in self.cases if case is not newest]
        if self.eviction == "least_used":
            leaving = min(others, key=lambda case: (case.rewarded + case.reused, case.id))
        else:
            leaving = min(others, key=lambda case: case.id)
        rows = [row for row, case in enumerate(self.cases) if case is not leaving]
        self.index.keep(rows)
        self.cases = [self.cases[row] for row in rows]
        self._rows = {pair: case for pair, case in self._rows.items() if case is not leaving}

    def save(self, folder: Path) -> None:
        """Write cases.jsonl and keys.safetensors into `folder`: enough to use the cases elsewhere."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(asdict(case), ensure_ascii=False) for case in self.cases]
        (folder / CASES_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        tensors = {"keys": self.index.keys().cpu().contiguous()} if self.cases else {}
        facts = json.dumps({"identity": self.identity, "next_id": self._next_id})
        save_file(tensors, folder / KEYS_FILE, metadata={FACTS: facts})  # one entry: their order is not fixed

    def load(self, folder: Path) -> None:
        """Replace the contents by what `save` wrote.

        Raises:
            RunFolderError: files are missing or damaged, or the keys were made by other encoders.
        """
        cases, keys, facts = _read(folder)
        if facts["identity"] != self.identity:
            raise RunFolderError(
                f"{folder}: these cases were stored with other encoders.\n"
                f"  stored: {facts['identity']}\n  now:    {self.identity}",
                hint="use the recipe that stored them (recipe.yaml in the run folder)",
            )
        self.index.keep([])
        if cases:
            self.index.add(keys)
        self.cases = cases
        self._rows = {(_bytes(key), case.template): case for key, case in zip(keys, cases, strict=True)}
        self._next_id = facts["next_id"]


def preference(case: Case) -> tuple[int, int, int]:
    """Order among equally relevant cases: more often rewarded, then more recent."""
    return case.rewarded, case.last_step, case.id


def _bytes(key: Tensor) -> bytes:
    return key.detach().cpu().contiguous().numpy().tobytes()


def _read(folder: Path) -> tuple[list[Case], Any, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        lines = (folder / CASES_FILE).read_text(encoding="utf-8").splitlines()
        cases = [_case(json.loads(line)) for line in lines]
        with safe_open(str(folder / KEYS_FILE), framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            keys: Any = file.get_tensor("keys") if cases else ()
        if len(keys) != len(cases) or not {"identity", "next_id"} <= facts.keys():
            raise ValueError(f"{len(cases)} cases but {len(keys)} keys")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunFolderError(f"{folder}: not a case memory: {error}") from error
    return cases, keys, facts


def _case(data: dict[str, Any]) -> Case:
    provenance = Provenance(**data.pop("provenance"))
    entities = tuple(data.pop("entities"))
    return Case(entities=entities, provenance=provenance, **data)
