"""The self-test of ``cbr doctor``: a tiny run in a temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cbrcore.console import plugins_of
from cbrcore.errors import RecipeError, RunFailed
from cbrcore.recipe import load_recipe, shipped

LIMIT_S = 100
RECIPE = Path("recipes") / "smoke" / "text_cbr_generated.yaml"
"""Every part once, on generated games, with a tiny untrained text encoder."""


def tiny_run(recipe: Path = RECIPE, *, limit_s: float = LIMIT_S) -> str:
    """Generate games, pretrain, train and evaluate, in a process of its own with an empty cache.

    Returns:
        why it could not be tried: a plugin that it needs is switched off; nothing if all is well.

    Raises:
        RunFailed: the run failed, or took too long.
    """
    found = shipped(recipe) or recipe
    try:
        load_recipe(found, registry=plugins_of(quiet=True).registry)
    except RecipeError as error:
        if os.environ.get("CBR_LOAD_PLUGINS") is not None:
            return f"not tried, plugins that it needs are switched off ({len(error.problems)} parts are missing)"
        raise RunFailed(f"its recipe is wrong here: {error.problems[0]}") from error
    with tempfile.TemporaryDirectory(prefix="cbr-doctor-") as folder:
        words = [sys.executable, "-m", "cbrcore.cli", "run", str(found), "--out", str(Path(folder) / "run")]
        try:
            done = subprocess.run(
                words,
                env={**os.environ, "CBR_CACHE": folder},
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"the tiny run took more than {limit_s:g} s") from error
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise RunFailed(f"the tiny run ended with exit code {done.returncode}: {said}")
    return ""
