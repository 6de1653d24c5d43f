"""Case memories as files: cases.jsonl, situations.jsonl and keys.safetensors. Nothing is pickled.

Each case names its situation by number, and equal situations are written once. A situation is written if it is
made of strings, numbers, tuples, sets and state graphs; others are left out, and their keys cannot be made again.

What is read is checked as a recipe is: every line against its model, and the files against each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbrcore.errors import RunFolderError, link_to_nowhere, os_failure
from cbrcore.interfaces import KeyIndex, Situation, StoredCases
from cbrcore.runs.files import damaged, write_atomically
from cbrcore.types import Case, Provenance, StateGraph

if TYPE_CHECKING:
    from torch import Tensor

Made = TypeVar("Made")

CASES_FILE = "cases.jsonl"
SITUATIONS_FILE = "situations.jsonl"
KEYS_FILE = "keys.safetensors"
FACTS = "case_memory"
MEND = "take an undamaged copy of the folder, or write it anew: cbr cases export RUN DIR"

FIELDS, ORIGIN = (tuple(field.name for field in fields(kind)) for kind in (Case, Provenance))
"""Of a case and of its provenance, in order."""

Whole = Annotated[int, Field(ge=0, lt=2**53)]
"""A memory holds the sum of a thousand such counts in 64 bits."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Origin(_Checked):
    """A `Provenance`."""

    game: str
    seed: Seed
    episode: Whole
    step: Whole
    reward: float


class _Line(_Checked):
    """A line of `CASES_FILE`: a `Case` and the number of its situation."""

    id: Whole
    template: str
    entities: tuple[str, ...]
    text: str
    provenance: _Origin
    rewarded: Whole
    reused: Whole
    last_step: Whole
    seeds: tuple[str, ...]
    reuse_rewarded: Whole
    situation: Whole | None

    def case(self) -> Case:
        plain = self.model_dump(exclude={"provenance", "situation"})
        return Case(provenance=Provenance(**self.provenance.model_dump()), **plain)


class _Facts(BaseModel):
    """What `KEYS_FILE` says of the whole."""

    model_config = ConfigDict(strict=True)

    identity: str
    weights: str
    next_id: Whole


# -- writing -----------------------------------------------------------------------------------------------------


def write_cases(folder: Path, stored: StoredCases) -> None:
    """Write the files into `folder`; `CASES_FILE`, which makes it a case memory, goes first and comes last.

    Raises:
        OSError: a file cannot be written; the folder is no case memory then.
    """
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, int] = {}
    lines = []
    for case, situation in zip(stored.cases, stored.situations, strict=True):
        text = _situation_text(situation)
        number = None if text is None else numbers.setdefault(text, len(numbers))
        lines.append(json.dumps(_plain(case) | {"situation": number}, ensure_ascii=False))
    facts = {"identity": stored.identity, "weights": stored.weights, "next_id": stored.next_id}
    tensors = {} if stored.keys is None else {"keys": stored.keys.cpu().contiguous()}
    (folder / CASES_FILE).unlink(missing_ok=True)
    # one entry of metadata: the order of several is not fixed
    # who seals the folder syncs the files
    write_atomically(folder / KEYS_FILE, save(tensors, {FACTS: json.dumps(facts)}), durable=False)
    write_atomically(folder / SITUATIONS_FILE, _joined(numbers), durable=False)
    write_atomically(folder / CASES_FILE, _joined(lines), durable=False)


def _plain(case: Case) -> dict[str, Any]:
    """As asdict, which copies every text and takes longer than the rest of `write_cases`."""
    named = {name: getattr(case, name) for name in FIELDS}
    return named | {"provenance": {name: getattr(case.provenance, name) for name in ORIGIN}}


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


# -- reading -----------------------------------------------------------------------------------------------------


def read_cases(folder: Path) -> StoredCases:
    """What `write_cases` wrote.

    Raises:
        RunFolderError: files are missing or damaged: "FILE:LINE: what is wrong".
        CbrError: they cannot be read.
    """
    wrong = "; ".join(damaged(folder))
    try:
        stored = _read_stored(folder)
    except RunFolderError as error:
        raise RunFolderError(f"{error.message} ({wrong})" if wrong else error.message, hint=MEND) from error
    if wrong:
        raise RunFolderError(f"{folder}: not a case memory: {wrong}", hint=MEND)
    return stored


def _read_stored(folder: Path) -> StoredCases:
    """What the files hold, whatever checksums say."""
    situations = _read_lines(folder / SITUATIONS_FILE, _situation)
    lines = _read_lines(folder / CASES_FILE, _Line.model_validate_json)
    facts, keys = _read_keys(folder / KEYS_FILE, len(lines))
    _check(folder / CASES_FILE, lines, facts, len(situations))
    of_cases = [None if line.situation is None else situations[line.situation] for line in lines]
    cases = [line.case() for line in lines]
    return StoredCases(cases, keys, of_cases, facts.identity, facts.weights, facts.next_id)


def fitting(keys: Tensor, index: KeyIndex, folder: Path | None = None) -> Tensor:
    """Stored keys [n, ...], if the index takes such ones.

    Raises:
        RunFolderError: they are of another shape or kind of number than the index holds.
    """
    import torch

    own = index.keys()
    alike = keys.shape[1:] == own.shape[1:] or not all(own.shape[1:])  # an empty index of others may not tell
    if alike and torch.can_cast(keys.dtype, own.dtype):
        return keys
    there, here = (f"{str(each.dtype).removeprefix('torch.')} {list(each.shape[1:])}" for each in (keys, own))
    where = folder / KEYS_FILE if folder else "these cases"
    raise RunFolderError(f"{where}: keys of {there}, but the quantizer makes {here}", hint=MEND)


def _read(path: Path) -> bytes:
    if nowhere := link_to_nowhere(path):
        raise RunFolderError(nowhere, hint=MEND)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        said = f"{path.parent}: not a case memory: no {path.name}"
        raise RunFolderError(said, hint=MEND) from None
    except OSError as error:
        raise os_failure(error, path) from error


def _read_lines(path: Path, parse: Callable[[bytes], Made]) -> list[Made]:
    """What each line means; the last one, too, ends with a line break."""
    *lines, rest = _read(path).split(b"\n")
    found = []
    for number, line in enumerate([*lines, *([rest] if rest else [])], start=1):
        try:
            found.append(parse(line))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunFolderError(f"{path}:{number}: {_what(error)}", hint=MEND) from error
    return found


def _what(error: Exception) -> str:
    """What is wrong, in a few words."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def _read_keys(path: Path, cases: int) -> tuple[_Facts, Tensor | None]:
    """The facts, and the keys [cases, ...]; None for no cases."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = _read(path)
    try:
        tensors = load(content)
        facts = _Facts.model_validate_json(_metadata(content)[FACTS])
        keys = tensors.pop("keys", None)
        count = 0 if keys is None else len(keys)
        if tensors or count != cases or (cases == 0 and keys is not None):
            raise ValueError(f"{cases} cases but {count} keys")
        if keys is not None and not torch.isfinite(keys).all():
            raise ValueError("a key holds a number that is not finite")
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise RunFolderError(f"{path}: {_what(error)}", hint=MEND) from error
    return facts, keys


def _metadata(content: bytes) -> dict[str, str]:
    """What a safetensors file says beside its tensors."""
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return found


def _check(path: Path, lines: Sequence[_Line], facts: _Facts, situations: int) -> None:
    """RunFolderError: the files do not belong together."""
    known: dict[int, int] = {}
    for number, line in enumerate(lines, start=1):
        what = ""
        if line.id in known:
            what = f"id: {line.id} is that of line {known[line.id]}, too"
        elif line.id >= facts.next_id:
            what = f"id: {line.id}, but the next case of all would be {facts.next_id} ({KEYS_FILE})"
        elif line.situation is not None and line.situation >= situations:
            what = f"situation: {line.situation}, but {SITUATIONS_FILE} holds {situations}"
        if what:
            raise RunFolderError(f"{path}:{number}: {what}", hint=MEND)
        known[line.id] = number


# -- situations ------------------------------------------------------------------------------------------------


def _situation_text(situation: Situation) -> str | None:
    """One line of JSON; None for a situation that cannot be written."""
    try:
        return None if situation is None else json.dumps(_to_json(situation), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
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


def _situation(line: bytes) -> Situation:
    return _from_json(json.loads(line.decode("utf-8"), parse_constant=_number, parse_float=_number))


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no finite number")
    return value


def _from_json(data: Any) -> Any:
    if isinstance(data, list):
        raise ValueError("a list that does not say what it is")
    if not isinstance(data, dict):
        return _whole_text(data) if isinstance(data, str) else data
    if len(data) != 1:
        raise ValueError(f"one kind of thing is wanted, not {len(data)}")
    ((kind, parts),) = data.items()
    if kind == "graph":
        nodes, triples = _list(parts, 2)
        names = tuple(map(_text, _list(nodes)))
        edges = [(_text(head), _text(relation), _text(tail)) for head, relation, tail in _lists(triples, 3)]
        if lost := {name for head, _, tail in edges for name in (head, tail)}.difference(names):
            raise ValueError(f"a graph without the node {min(lost)!r}, which an edge has")
        return StateGraph(names, tuple(edges))
    if kind not in ("set", "tuple"):
        raise ValueError(f"{kind!r} is no kind of situation")
    made = [_from_json(part) for part in _list(parts)]
    return frozenset(made) if kind == "set" else tuple(made)


def _lists(data: Any, length: int) -> list[list[Any]]:
    return [_list(part, length) for part in _list(data)]


def _list(data: Any, length: int | None = None) -> list[Any]:
    if not isinstance(data, list) or length not in (None, len(data)):
        raise ValueError(f"a list{f' of {length}' if length else ''} is wanted, not {json.dumps(data)[:40]}")
    return data


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise ValueError(f"a text is wanted, not {json.dumps(data)[:40]}")
    return _whole_text(data)


def _whole_text(text: str) -> str:
    """UnicodeEncodeError, a ValueError, for half a character."""
    text.encode()
    return text
