"""What results.json must be for tables and figures: numbers where numbers stand. What is not there is no fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Number = float | None


class _Checked(BaseModel):
    """Whatever else it holds is taken as it is."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class _Mean(_Checked):
    mean: Number = None
    std: Number = None
    games: int | None = None
    interval: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None


class _OfGame(_Checked):
    steps: Number = None
    norm_score: Number = None


class _Measured(_Checked):
    steps: _Mean = _Mean()
    norm_score: _Mean = _Mean()
    score: _Mean = _Mean()
    endings: dict[str, int] = {}
    total_steps: Number = None
    reused: Number = None
    reuse_rewarded: Number = None
    reuse_agent_same: Number = None
    games: dict[str, _OfGame] = {}


class _Random(_Measured):
    passes: int | None = None


class _Split(_Measured):
    mode: str = ""
    optimal_steps: Number = None
    sampled: _Measured = _Measured()
    greedy: _Measured = _Measured()
    random: _Random = _Random()


class _Pretraining(_Checked):
    steps: int | None = None
    plays: int | None = None


class _Training(_Checked):
    avg_score_last_100: Number = None
    best_score: Number = None
    env_steps: int | None = None
    episodes: int | None = None
    memory_size: int | None = None
    endings: dict[str, int] = {}
    pretraining: _Pretraining | None = None


class _Facts(_Checked):
    max_score: Number = None
    initial_score: Number = None
    optimal_steps: Number = None


class _Protocol(_Checked):
    seed: int | None = None
    evaluation_passes: int | None = None
    handicaps: dict[str, Any] = {}
    games: dict[str, dict[str, _Facts]] = {}
    duplicates: list[list[str]] = []


class _Results(_Checked):
    schema_: Literal[1] = Field(1, alias="schema")
    name: str = ""
    evaluation: dict[str, _Split]
    ood_gap: dict[str, Number] | None = None
    training: _Training = _Training()
    protocol: _Protocol = _Protocol()


def fault_of(results: Any) -> str | None:
    """The first thing that is wrong with the content of a results.json, in words; None if nothing is."""
    try:
        _Results.model_validate(results)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
    return None


EXPECTED = (("training",), ("protocol", "games"), ("protocol", "evaluation_passes"), ("protocol", "handicaps"))
OF_A_SPLIT = ("steps", "norm_score", "random")


def lacking(results: Mapping[str, Any]) -> Iterator[str]:
    """What every run of ours writes and this one does not tell, as dotted paths."""
    splits = [("evaluation", split, name) for split in results["evaluation"] for name in OF_A_SPLIT]
    for path in (*EXPECTED, *splits):
        data: Any = results
        for key in path:
            data = data.get(key) if isinstance(data, Mapping) else None
        if data is None:
            yield ".".join(path)
