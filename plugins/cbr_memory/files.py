"""Case memories as files: cases.jsonl, situations.jsonl and keys.safetensors. Nothing is pickled.

Each case names its situation by number, and equal situations are written once. A situation is written if it is
made of strings, numbers, tuples, sets and state graphs; others are left out, and their keys cannot be made again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cbrcore.errors import RunFolderError
from cbrcore.interfaces import Situation, StoredCases
from cbrcore.runs.files import damaged, write_tensors, writing
from cbrcore.types import Case, Provenance, StateGraph

CASES_FILE = "cases.jsonl"
SITUATIONS_FILE = "situations.jsonl"
KEYS_FILE = "keys.safetensors"
FACTS = "case_memory"


def write_cases(folder: Path, stored: StoredCases) -> None:
    """Write the files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, int] = {}
    lines = []
    for case, situation in zip(stored.cases, stored.situations, strict=True):
        text = _situation_text(situation)
        number = None if text is None else numbers.setdefault(text, len(numbers))
        lines.append(json.dumps(asdict(case) | {"situation": number}, ensure_ascii=False))
    _write_lines(folder / CASES_FILE, lines)
    _write_lines(folder / SITUATIONS_FILE, list(numbers))
    facts = {"identity": stored.identity, "weights": stored.weights, "next_id": stored.next_id}
    tensors = {} if stored.keys is None else {"keys": stored.keys.cpu().contiguous()}
    # one entry of metadata: the order of several is not fixed
    write_tensors(folder / KEYS_FILE, tensors, {FACTS: json.dumps(facts)})


def read_cases(folder: Path) -> StoredCases:
    """What `write_cases` wrote.

    Raises:
        RunFolderError: files are missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    if wrong := damaged(folder):
        raise RunFolderError(f"{folder}: not a case memory: {'; '.join(wrong)}")
    try:
        situations = [_from_json(json.loads(line)) for line in _lines(folder / SITUATIONS_FILE)]
        rows = [json.loads(line) for line in _lines(folder / CASES_FILE)]
        numbers = [row.pop("situation") for row in rows]
        cases = [_case(row) for row in rows]
        with safe_open(str(folder / KEYS_FILE), framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            keys: Any = file.get_tensor("keys") if "keys" in file.keys() else None  # noqa: SIM118 (no mapping)
        if (count := 0 if keys is None else len(keys)) != len(cases):
            raise ValueError(f"{len(cases)} cases but {count} keys")
        of_cases = [None if number is None else situations[number] for number in numbers]
        return StoredCases(cases, keys, of_cases, facts["identity"], facts["weights"], facts["next_id"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError) as error:
        raise RunFolderError(f"{folder}: not a case memory: {error}") from error


def _case(data: dict[str, Any]) -> Case:
    provenance = Provenance(**data.pop("provenance"))
    entities, seeds = tuple(data.pop("entities")), tuple(data.pop("seeds"))
    return Case(entities=entities, seeds=seeds, provenance=provenance, **data)


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    with writing(path):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


# -- situations ------------------------------------------------------------------------------------------------


def _situation_text(situation: Situation) -> str | None:
    """One line of JSON; None for a situation that cannot be written."""
    try:
        return None if situation is None else json.dumps(_to_json(situation), ensure_ascii=False)
    except TypeError:
        return None


def _to_json(value: Any) -> Any:
    """Plain values as they are, the others as {kind: parts}.

    Raises:
        TypeError: the value is of no kind that can be written.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, StateGraph):
        return {"graph": [list(value.nodes), [list(triple) for triple in value.triples]]}
    if isinstance(value, frozenset):
        return {"set": sorted((_to_json(part) for part in value), key=json.dumps)}
    if type(value) is tuple:
        return {"tuple": [_to_json(part) for part in value]}
    raise TypeError(f"cannot be written: {type(value).__name__}")


def _from_json(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    ((kind, parts),) = data.items()
    if kind == "graph":
        nodes, triples = parts
        return StateGraph(tuple(nodes), tuple((head, relation, tail) for head, relation, tail in triples))
    made = [_from_json(part) for part in parts]
    return {"set": frozenset, "tuple": tuple}[kind](made)
