"""Whether a run is done: its results say so. That a file is there, or that a process ended well, says nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cbrcore.config import Recipe
from cbrcore.errors import RunFolderError
from cbrcore.runs.folder import RESULTS_FILE, damaged, read_json


def why_not_done(folder: Path, recipe: Recipe) -> str | None:
    """What is wrong with the results in a run's folder; None if they are those of this recipe, to its end."""
    if not (folder / RESULTS_FILE).is_file():
        return f"there is no {RESULTS_FILE}"
    with suppress(RunFolderError, LookupError, TypeError, AttributeError):
        fault = next(_faults(read_json(folder / RESULTS_FILE), recipe), None)
        return fault or next((each for each in damaged(folder) if each.startswith(RESULTS_FILE)), None)
    return f"{RESULTS_FILE} is damaged"


def _faults(results: Mapping[str, Any], recipe: Recipe) -> Iterator[str]:
    """In words; a LookupError, TypeError or AttributeError tells as much: these are no results."""
    protocol, evaluation = results["protocol"], results["evaluation"]
    told = {"name": results["name"], "seed": protocol["seed"], "passes": protocol["evaluation_passes"]}
    for what, wanted in {"name": recipe.name, "seed": recipe.seed, "passes": recipe.evaluation.passes}.items():
        if told[what] != wanted:
            yield f"{RESULTS_FILE} is of another run ({what} {told[what]}, not {wanted})"
    for split in recipe.evaluation.splits:
        if not evaluation.keys() >= {split} or evaluation[split]["steps"]["mean"] is None:
            yield f"{RESULTS_FILE} has no numbers of the split {split!r}"
    if (short := lacks(results, recipe.run.episodes, recipe.run.env_steps)) is not None:
        yield f"{RESULTS_FILE} is of an unfinished training ({short})"


def lacks(results: Mapping[str, Any], passes: int | None, env_steps: int | None) -> str | None:
    """How far the training was, if results were written before its budget was used ("3 of 10 game plays").

    Args:
        passes, env_steps: the budget, one of them.
    """
    training, games = results["training"], results["protocol"]["games"]["train"]
    unit, done, budget = "steps", training["env_steps"], env_steps or 0
    if passes is not None:
        unit, done, budget = "game plays", training["episodes"], passes * len(games)
    return f"{done} of {budget} {unit}" if done < budget else None


def killed_by(code: int) -> str | None:
    """ "killed by SIGKILL": of an exit code that tells a signal, as Python (-9) or a shell (137) has it."""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return None
    return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
