"""What can be measured, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

from cbr_bench.figures import Figure
from cbrcore.config import expand_path
from cbrcore.errors import CbrError


@dataclass(frozen=True)
class Setting:
    """Of a measurement.

    Attributes:
        folder: an empty one, for what it writes.
        quick: whether a tenth of the time has to do.
    """

    folder: Path
    quick: bool = False


@dataclass(frozen=True)
class Measure:
    """Attributes:
    where: "module:function", of a `Setting`; gives figures as they come.
    minutes: what it takes, about, on two cores.
    games: what it needs of the folder with the published games; "" for nothing.
    """

    where: str
    about: str
    minutes: float
    games: str = ""

    def run(self, setting: Setting) -> Iterator[Figure]:
        """Measure."""
        module, _, function = self.where.partition(":")
        measured: Callable[[Setting], Iterator[Figure]] = getattr(import_module(module), function)
        return measured(setting)

    @property
    def missing(self) -> str:
        """The folder that it needs and that is not here; "" if there is none."""
        if not self.games:
            return ""
        named = f"$CBR_GAMES/{self.games}"
        folder = expand_path(named, Path()) if os.environ.get("CBR_GAMES") else Path(named)
        return "" if folder.is_dir() else str(folder)


MEASURES = {
    "start": Measure("cbr_bench.starts:starts", "how soon a command answers, and a run trains", 1),
    "quickstart": Measure("cbr_bench.starts:quickstart", "the quickstart, from command to table", 1),
    "training": Measure("cbr_bench.training:training", "training on TWC, against TextWorld alone", 8, "twc"),
    "arithmetic": Measure("cbr_bench.training:arithmetic", "what of training is outside torch's operators", 1),
    "cores": Measure("cbr_bench.training:cores", "two cores against one", 3),
    "retrieval": Measure("cbr_bench.retrieval:retrieval", "the best case above tau, of many", 1),
    "step": Measure("cbr_bench.retrieval:step", "what a reused step costs beside searching", 1),
    "ram": Measure("cbr_bench.retrieval:ram", "the bytes that a case takes", 1),
    "view": Measure("cbr_bench.games:view", "Jericho: actions remembered by view, six games", 40, "jericho"),
    "interpreter": Measure("cbr_bench.games:interpreter", "Jericho: `cbr games tune`, six games", 4, "jericho"),
    "explorer": Measure("cbr_bench.games:explorer", "Jericho: the explorer without its environment", 3, "jericho"),
}


def chosen(patterns: list[str]) -> dict[str, Measure]:
    """The measures whose name fits one of the patterns; all without a pattern.

    Raises:
        CbrError: a pattern fits none.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in MEASURES):
            raise CbrError(f"no measure fits {pattern!r}", hint=f"there are {', '.join(MEASURES)}")
    fits = [name for name in MEASURES if not patterns or any(fnmatchcase(name, each) for each in patterns)]
    return {name: MEASURES[name] for name in fits}


def said_of(missing: str) -> str:
    """Why a measure is left out."""
    named = os.environ.get("CBR_GAMES")
    return f"{missing} is not here" if named else "set CBR_GAMES to the folder with the published games"
