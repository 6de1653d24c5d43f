"""How soon a command answers, and how soon a run trains."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from cbr_bench.children import cbr, cost, recipe_file, trained
from cbr_bench.figures import Figure
from cbr_bench.measures import Setting

BARE = "python -c pass"


def starts(setting: Setting) -> Iterator[Figure]:
    """Processor time of commands that need no network, against Python's own start; and of the quickstart until its
    first training step (pretraining included, games and texts in the cache), against importing torch."""
    times = 3 if setting.quick else 11
    bare = _cpu(["-c", "pass"], times)
    for words in (["--help"], ["list-plugins"]):
        yield Figure(f"cbr {words[0]}", _cpu(cbr(*words), times), "CPU s", BARE, bare)
    empty = ("run.episodes=0", "evaluation.splits=[]")
    trained("quickstart.yaml", setting.folder / "games", *empty)  # makes them
    folders = iter(setting.folder / str(number) for number in range(times))
    spent = [_of_quickstart(next(folders), empty) for _ in range(2 if setting.quick else 3)]
    torch = _cpu(["-c", "import torch"], 3)
    yield Figure(
        "quickstart up to its first training step",
        min(spent),
        "CPU s",
        "import torch",
        torch,
    )


def quickstart(setting: Setting) -> Iterator[Figure]:
    """Seconds of the whole quickstart once its games are made, against importing torch."""
    path = str(recipe_file("quickstart.yaml"))
    cost(cbr("run", path, "--out", str(setting.folder / "first")))
    whole = cost(cbr("run", path, "--out", str(setting.folder / "second"))).wall
    import_all = cost(["-c", "import torch"]).wall
    yield Figure("quickstart, from command to table", whole, "s", "import torch", import_all)


def _cpu(words: Sequence[str], times: int) -> float:
    return statistics.median(cost(words).cpu for _ in range(times))


def _of_quickstart(folder: object, settings: Sequence[str]) -> float:
    words = [word for each in settings for word in ("--set", each)]
    return cost(cbr("run", str(recipe_file("quickstart.yaml")), "--out", str(folder), *words)).cpu
