"""The self-test of ``cbr doctor``: a tiny run in a temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cbrcore import Finding, RunFailed
from cbrcore.errors import RecipeError
from cbrcore.recipe import load_recipe, shipped

if TYPE_CHECKING:
    from cbrcore.plugins import PluginReport

LIMIT_S = 100
RECIPE = Path("recipes") / "smoke" / "text_cbr_generated.yaml"
"""Every part once, on generated games, with a tiny untrained text encoder."""


def self_test(report: PluginReport, recipe: Path = RECIPE) -> Iterator[Finding]:
    """Whether the tiny run works; if a plugin that it needs is switched off, this is what is found.

    Raises:
        CbrError: the recipe is not here or does not fit, or the run failed or took too long.
    """
    path = shipped(recipe) or recipe
    try:
        load_recipe(path, registry=report.registry)
    except RecipeError as error:
        skipped = [info.name for info in report.plugins if info.status == "skipped"]
        needed = [[name for name in skipped if f"'{name}/" in problem] for problem in error.problems]
        if not all(needed):  # something else is wrong
            raise
        found = f"not tried, it needs {', '.join(sorted({name for names in needed for name in names}))}"
        yield Finding("self-test", "tiny run", "absent", found, "unset CBR_LOAD_PLUGINS")
        return
    start = time.monotonic()
    tiny_run(path)
    found = f"generated games, trained, evaluated in {time.monotonic() - start:.0f} s"
    yield Finding("self-test", "tiny run", "ok", found)


def tiny_run(recipe: Path, *, limit_s: float = LIMIT_S) -> None:
    """Generate games, pretrain, train and evaluate, in a process of its own with an empty cache.

    Raises:
        RunFailed: the run failed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
        words = [sys.executable, "-m", "cbrcore.cli", "run", str(recipe), "--out", str(Path(folder) / "run")]
        environment = {**os.environ, "CBR_CACHE": folder, "CBR_STRICT_PLUGINS": ""}  # others are told of elsewhere
        try:
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"the tiny run took more than {limit_s:g} s") from error
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise RunFailed(f"the tiny run ended with exit code {done.returncode}: {said}")
