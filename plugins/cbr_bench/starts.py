"""How soon a command answers, and how soon a run trains."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from cbr_bench.children import NOT_MEASURED, cbr, cost, ran
from cbr_bench.figures import Figure
from cbr_bench.measures import Setting

BARE, QUICKSTART = "python -c pass", "quickstart.yaml"


def starts(setting: Setting) -> Iterator[Figure]:
    """Processor time of commands that need no network, against Python's own start; and of the quickstart until its
    first training step (pretraining included, games and texts in the cache), against importing torch."""
    times = 3 if setting.quick else 11
    bare = _cpu(["-c", "pass"], times)
    for words in (["--help"], ["list-plugins"]):
        yield Figure(f"cbr {words[0]}", _cpu(cbr(*words), times), "CPU s", BARE, bare)
    spent = [_to_first_step(setting.folder / str(number)) for number in range(3 if setting.quick else 4)]
    torch = _cpu(["-c", "import torch"], 3)
    first_step = min(spent[1:])  # the first one makes the games
    yield Figure("quickstart up to its first training step", first_step, "CPU s", "import torch", torch)


def quickstart(setting: Setting) -> Iterator[Figure]:
    """Seconds of the whole quickstart once its games are made, against importing torch."""
    ran(QUICKSTART, setting.folder / "first")
    whole = ran(QUICKSTART, setting.folder / "second").wall
    import_all = cost(["-c", "import torch"]).wall
    yield Figure("quickstart, from command to table", whole, "s", "import torch", import_all)


def _cpu(words: Sequence[str], times: int) -> float:
    return statistics.median(cost(words).cpu for _ in range(times))


def _to_first_step(folder: Path) -> float:
    return ran(QUICKSTART, folder, "run.episodes=0", NOT_MEASURED).cpu
