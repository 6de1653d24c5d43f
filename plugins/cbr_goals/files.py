"""What a memory of goals keeps beside its cases: `evidence.json` and `tries.safetensors`. Nothing is pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from cbr_goals.fitting import Weights
from cbrcore.errors import RunFolderError
from cbrcore.runs.files import write_atomically, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

EVIDENCE_FILE = "evidence.json"
TRIES_FILE = "tries.safetensors"
MEND = "take an undamaged copy of the folder"


class Try(NamedTuple):
    """Something that was tried in a game."""

    game: str
    template: str
    entities: tuple[str, ...]


class _Weights(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    w0: float
    wC: float  # noqa: N815 (the letter of the equation)
    w1: float
    w2: float
    a: float
    b: float


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    game: str
    template: str
    entities: tuple[str, ...]
    right: bool


class Stored(BaseModel):
    """What `EVIDENCE_FILE` holds."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    weights: _Weights
    figures: dict[str, float | None]
    tries: list[_Line]

    def found(self) -> tuple[Weights, dict[Try, bool]]:
        """The weights, and what was tried."""
        tries = {Try(each.game, each.template, each.entities): each.right for each in self.tries}
        return Weights(**self.weights.model_dump()), tries


def write_evidence(
    folder: Path,
    weights: Weights,
    figures: Mapping[str, float | None],
    tries: Mapping[Try, bool],
    tensors: Mapping[str, Tensor],
) -> None:
    """Write both files; `tensors` are the keys of the tries. OSError: a file cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [each._asdict() | {"right": right} for each, right in tries.items()]
    plain = {"weights": asdict(weights), "figures": dict(figures), "tries": lines}
    write_tensors(folder / TRIES_FILE, tensors)
    write_atomically(folder / EVIDENCE_FILE, json.dumps(plain, ensure_ascii=False, allow_nan=False))


def read_evidence(folder: Path) -> tuple[Stored, dict[str, Tensor]]:
    """What `write_evidence` wrote. RunFolderError: a file is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = folder / EVIDENCE_FILE
    try:
        stored = Stored.model_validate_json(path.read_bytes())
        path = folder / TRIES_FILE
        return stored, load(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        told = f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise RunFolderError(told, hint=MEND) from error
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})", hint=MEND) from error
