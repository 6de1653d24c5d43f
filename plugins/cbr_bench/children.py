"""Commands in processes of their own, and what they cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Any

from cbrcore.errors import RunFailed
from cbrcore.recipe import shipped

LIMIT_S = 3600
LEAST = ("evaluation.passes=1", "evaluation.random_passes=1", "evaluation.modes=[sampled]")
"""As little evaluation as there can be."""
NOT_MEASURED = "evaluation.splits=[]"
"""None at all."""


@dataclass(frozen=True)
class Cost:
    """Of a process and its own children.

    Attributes:
        wall: seconds by the clock.
        cpu: seconds of processor time.
        stdout: what it printed.
    """

    wall: float
    cpu: float
    stdout: str


def cost(
    words: Sequence[str], *, environment: Mapping[str, str] | None = None, begin: Callable[[], None] | None = None
) -> Cost:
    """Run Python with these words to its end.

    Args:
        environment: variables that differ.
        begin: called in the child, before Python starts.

    Raises:
        RunFailed: it failed, or took more than an hour.
    """
    command, before, started = [sys.executable, *words], getrusage(RUSAGE_CHILDREN), perf_counter()
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", **(environment or {})}
    try:
        done = subprocess.run(
            command, env=settings, capture_output=True, text=True, timeout=LIMIT_S, check=False, preexec_fn=begin
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{' '.join(words)}: not done after {LIMIT_S} s") from error
    wall, after = perf_counter() - started, getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise RunFailed(f"{' '.join(words)} ended with exit code {done.returncode}: {said}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout)


def cbr(*words: str) -> list[str]:
    """The words of a command of ours."""
    return ["-m", "cbrcore.cli", *words]


def recipe_file(name: str) -> Path:
    """A shipped recipe.

    Raises:
        RunFailed: it is not here.
    """
    path = shipped(Path("recipes") / name)
    if path is None:
        raise RunFailed(f"the recipe {name} is not here", hint="install cbr with its recipes")
    return path


def ran(
    recipe: str, folder: Path, *settings: str, cache: Path | None = None, begin: Callable[[], None] | None = None
) -> Cost:
    """Run a shipped recipe in `folder`.

    Args:
        cache: an own cache folder, empty if nothing was written to it; else the user's.
        begin: see `cost`.

    Raises:
        RunFailed: see `cost` and `recipe_file`.
    """
    words = [word for setting in settings for word in ("--set", setting)]
    environment = {"CBR_CACHE": str(cache)} if cache else {}
    command = cbr("run", str(recipe_file(recipe)), "--out", str(folder), *words)
    return cost(command, environment=environment, begin=begin)


def trained(
    recipe: str, folder: Path, *settings: str, cache: Path | None = None, begin: Callable[[], None] | None = None
) -> dict[str, Any]:
    """The same, hardly evaluated: what its timing.json holds, and env_steps."""
    ran(recipe, folder, *LEAST, *settings, cache=cache, begin=begin)
    results = json.loads((folder / "results.json").read_text())
    return {**json.loads((folder / "timing.json").read_text()), "env_steps": results["training"]["env_steps"]}
