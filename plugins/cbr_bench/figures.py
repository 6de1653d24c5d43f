"""What was measured, and on what machine."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

COLUMNS = ("what", "a", "against", "b", "a / b")


@dataclass(frozen=True)
class Figure:
    """One figure beside its alternative, of the same run.

    Attributes:
        unit: of both: "steps/s", "CPU s", "ms".
        against: what the alternative is.
        other: its figure; None if there is no alternative, as with a share.
    """

    what: str
    value: float
    unit: str
    against: str = ""
    other: float | None = None

    @property
    def ratio(self) -> float | None:
        """The first by the second; None without one."""
        return self.value / self.other if self.other else None

    def data(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "ratio": self.ratio}

    def row(self) -> list[str]:
        """Its cells, as in `COLUMNS`."""
        other = "" if self.other is None else shown(self.other, self.unit)
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        return [self.what, shown(self.value, self.unit), self.against, other, ratio]


def shown(value: float, unit: str) -> str:
    """With three digits that count."""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": version("torch"),
        "load": round(os.getloadavg()[0], 1),
    }


def processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """Its name, as the system tells it."""
    try:
        lines = info.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def median_ms(do: Callable[[int], object], calls: Sequence[int]) -> float:
    """The median milliseconds of `do(number)`."""
    times = []
    for number in calls:
        started = perf_counter()
        do(number)
        times.append(perf_counter() - started)
    return 1000 * statistics.median(times)
