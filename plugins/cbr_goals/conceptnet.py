"""How near two names are in ConceptNet."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import torch
from torch import Tensor

from cbr_commonsense.files import CONCEPTNET_FILE, triples_of
from cbr_goals.config import ConceptNetConfig
from cbrcore.config import expand_path
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build

LEVELS = ("easy", "medium", "hard")
SPLIT = "train"
"""The only folder that is read."""
GET = "set CBR_GAMES to the folder that holds twc/ (github.com/IBM/commonsense-rl), or `games_dir`"


class ConceptNet:
    """Of two names that are linked to concepts: the mean over those of the first, a, of the greatest value over
    those of the second, b, of

        1 if a and b are neighbours, else 0;  + 3 |N(a) & N(b)| / (1 + sqrt(|N(a)| |N(b)|))

    with N(a) the neighbours of a. A name is linked to every run of its words that is a concept ("dirty shirt" to
    "dirty_shirt", "dirty" and "shirt"). 0 where one of the names is unknown.

    Attributes:
        handicaps: what it tells, for the results.

    Raises:
        CbrError: there is no such folder, or no file in it.
    """

    def __init__(self, config: ConceptNetConfig, build: Build) -> None:
        self.files = _files(_games(config, build.recipe_dir), config.levels)
        self._base = triples_of(self.files)
        levels = ", ".join(file.parents[1].name for file in self.files)
        self.handicaps = {"pair_feature": f"ConceptNet, linked to the training games by their makers ({levels})"}
        self._device = build.device
        self.value = cache(self._value)

    def __repr__(self) -> str:
        return f"ConceptNet({self._base!r})"

    def values(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """[n] float32: one value per pair, not negative."""
        return torch.tensor([self.value(*pair) for pair in pairs], dtype=torch.float32, device=self._device)

    def _value(self, one: str, other: str) -> float:
        first, second = self._concepts(one), self._concepts(other)
        if not (first and second):
            return 0.0
        return sum(max(self._near(a, b) for b in second) for a in first) / len(first)

    def _near(self, a: str, b: str) -> float:
        here, there = self._base.around(a), self._base.around(b)
        return (b in here) + 3 * len(here & there) / (1 + math.sqrt(len(here) * len(there)))

    def _concepts(self, name: str) -> list[str]:
        """Those that a name is linked to; concepts without neighbours are none."""
        words = name.lower().split()
        spans = ["_".join(words[start:end]) for start, end in combinations(range(len(words) + 1), 2)]
        return [span for span in dict.fromkeys(spans) if span in self._base and self._base.around(span)]


def _games(config: ConceptNetConfig, recipe_dir: Path) -> Path:
    """The folder of the levels."""
    if config.games_dir is not None:
        folder = expand_path(config.games_dir, recipe_dir)
    elif os.environ.get("CBR_GAMES"):
        folder = Path(os.environ["CBR_GAMES"]).expanduser() / "twc"
    else:
        raise CbrError("where are the TWC games? Neither `games_dir` nor CBR_GAMES is set", hint=GET)
    if not folder.is_dir():
        raise CbrError(f"no folder {folder}", hint=GET)
    return folder


def _files(games: Path, levels: Sequence[str] | None) -> list[Path]:
    """The train folder's file of each level; without `levels` of those that have one."""
    files = [games / level / SPLIT / CONCEPTNET_FILE for level in levels or LEVELS]
    found = [file for file in files if levels or file.is_file()]
    if missing := [file for file in found if not file.is_file()]:
        raise CbrError(
            f"no file {missing[0]}", hint="leave `levels` out to read those of all levels that have one"
        )
    if not found:
        raise CbrError(f"no {CONCEPTNET_FILE} in {games}/LEVEL/{SPLIT}", hint=GET)
    return found
