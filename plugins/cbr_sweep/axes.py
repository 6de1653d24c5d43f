"""A sweep: one recipe, several axes, a run for each combination of their values.

sweep:
  seed: [0, 1, 2]
  environment.level: [easy, hard]
  variants:                          # several settings that belong together, under a name
    text: {memory: null, context_encoder: null, quantizer: null, reuse_policy: null, retain_policy: null}
    text_cbr: {}
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from cbrcore.config import Recipe

SECTION = "sweep"
"""The key in a recipe."""
VARIANTS = "variants"
"""The axis whose values are several settings each."""


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep.

    Attributes:
        id: names its folder; the same whenever the sweep is expanded, whatever other values the axes have.
        choices: axis -> the chosen value, or the name of the chosen variant.
        settings: dotted path -> value; what the run changes in the recipe.
    """

    id: str
    choices: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def overrides(self) -> list[str]:
        """As after ``--set``."""
        return [f"{SECTION}=null", *(f"{path}={json.dumps(value)}" for path, value in self.settings.items())]


def axes_of(recipe: Recipe) -> Mapping[str, Any]:
    """The axes as they stand in the recipe; none if it has no sweep."""
    section = recipe.sections.get(SECTION)
    return {} if section is None else section.root


def expand(recipe: Recipe) -> list[SweepRun]:
    """All runs of the recipe's sweep, the last axis changing fastest; one run without changes if it has none."""
    return expand_axes(axes_of(recipe))


def expand_axes(written: Mapping[str, Any]) -> list[SweepRun]:
    """The runs of these axes; see `expand`."""
    axes = {axis: _options(axis, values) for axis, values in written.items()}
    runs = [_run(dict(zip(axes, chosen, strict=True))) for chosen in product(*axes.values())]
    double = {run_id for run_id, count in Counter(run.id for run in runs).items() if count > 1}
    return [SweepRun(_distinct(run), run.choices, run.settings) if run.id in double else run for run in runs]


def described(written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What `cbr check` prints of the axes."""
    for axis, values in written.items():
        yield f"{SECTION} {axis}", json.dumps(values)
    yield "runs", str(len(expand_axes(written)))


Option = tuple[Any, dict[str, Any]]
"""(what is chosen, the settings it means)"""


def _options(axis: str, values: Any) -> list[Option]:
    if axis == VARIANTS:
        return [(name, dict(settings)) for name, settings in values.items()]
    return [(value, {axis: value}) for value in values]


def _run(chosen: Mapping[str, Option]) -> SweepRun:
    settings = {path: value for _, changes in chosen.values() for path, value in changes.items()}
    choices = {axis: choice for axis, (choice, _) in chosen.items()}
    return SweepRun("-".join(_word(axis, choice) for axis, choice in choices.items()) or "run", choices, settings)


def _word(axis: str, choice: Any) -> str:
    """Part of an id: the name of a variant, else the axis' last key and the value."""
    if axis == VARIANTS:
        return _slug(str(choice))
    text = choice if isinstance(choice, str) else json.dumps(choice)
    return f"{_slug(axis.rpartition('.')[2])}={_slug(text)}"


def _slug(text: str) -> str:
    """`text` with letters, digits, points and underscores only; long ones and odd ones end with a hash."""
    plain = re.sub(r"[^\w.]+", "_", text).strip("_.")
    return plain if plain == text and len(plain) <= 40 else f"{plain[:32]}_{_hash(text)}"


def _distinct(run: SweepRun) -> str:
    """An id for runs whose readable ids are equal (two axes with the same last key)."""
    return f"{run.id}-{_hash(json.dumps(dict(run.settings), sort_keys=True))}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]
