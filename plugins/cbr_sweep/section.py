"""The section `sweep:` of a recipe: its axes, each a dotted path and values, and the variants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import RootModel, model_validator

from cbr_sweep.axes import SECTION, VARIANTS, described
from cbrcore import CbrError, Fault, Trial


class SweepSection(RootModel[dict[str, Any]]):
    """Axes: dotted path -> list of values, as in ``training.gamma: [0.9, 0.95]``. A run for each combination.

    The axis ``variants`` holds several settings that belong together, under a name:
    ``variants: {text: {memory: null}, text_cbr: {}}``.
    """

    @model_validator(mode="before")
    @classmethod
    def _is_a_section(cls, written: Any) -> Any:
        if not isinstance(written, dict):
            raise CbrError("must be a section of 'dotted.path: [values]' lines")
        return written

    def faults(self, trial: Trial) -> Iterator[Fault]:
        """What is wrong with an axis, or with one of its values; what only a combination breaks shows when the
        sweep is expanded."""
        for axis, values in self.root.items():
            if axis == VARIANTS:
                yield from _faults_of_variants(values, trial)
            elif not isinstance(values, list) or not values:
                yield (axis,), "needs a list of values, as in 'training.gamma: [0.9, 0.95]'"
            elif not _can_be_swept(axis):
                yield (axis,), "cannot be swept"
            else:
                if len({json.dumps(value, sort_keys=True) for value in values}) < len(values):
                    yield (axis,), "names a value twice"
                for position in range(len(values)):
                    yield from trial({axis: (axis, position)})

    def overview(self) -> Iterable[tuple[str, str]]:
        """What `cbr check` prints."""
        return described(self.root)


def _faults_of_variants(variants: Any, trial: Trial) -> Iterator[Fault]:
    """Each variant is a name and settings by dotted path, which belong together."""
    if not isinstance(variants, Mapping) or not variants:
        yield (VARIANTS,), "must be a section of 'name: {dotted.path: value}' lines"
        return
    for name, settings in variants.items():
        if not isinstance(settings, Mapping):
            yield (VARIANTS, name), "must be a section of 'dotted.path: value' lines"
        elif wrong := [path for path in settings if not _can_be_swept(path)]:
            yield (VARIANTS, name, wrong[0]), "cannot be swept"
        else:
            yield from trial({path: (VARIANTS, name, path) for path in settings})


def _can_be_swept(path: str) -> bool:
    return all(path.split(".")) and path.split(".")[0] not in ("schema", SECTION)
