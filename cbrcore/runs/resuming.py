"""What may be another when a run goes on: the settings, the versions, the plugin files. The rest is refused."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore.console import checked_recipe
from cbrcore.errors import RecipeError, RunFolderError
from cbrcore.runs.files import damaged
from cbrcore.runs.folder import RECIPE_FILE, plugin_files, run_command, stored_recipe

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport

PACKAGES = ("torch", "torch-geometric", "transformers", "numpy", "textworld", "jericho", "pluggy", "pydantic")
BUDGETS = ("run.episodes", "run.env_steps")
MAY_CHANGE: Mapping[str, str] = {
    "name": "a name",
    "directory": "where relative paths start",
    "recorders": "they look on",
    "evaluation": "it is measured after the training",
    "memory.cases": "it was read when the run began",
    "training.pretrain.retriever": "it was read when the run began",
    "run.checkpoint_every": "checkpoints change nothing",
    "run.episodes": "a longer budget, or a shorter one that is not used up yet",
    "run.env_steps": "a longer budget, or a shorter one that is not used up yet",
}
"""Setting, or whole section -> why a resumed run may have another one. Any other would make another run."""

Changes = dict[str, tuple[Any, Any]]
"""Dotted path -> (value before, value now); None where there is none."""


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Changes:
    """In what two nested mappings differ."""
    old, new = flat(before), flat(now)
    return {path: (old.get(path), new.get(path)) for path in old | new if old.get(path) != new.get(path)}


def flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted path -> value, of nested mappings; an empty mapping is a value."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        inner = flat(value) if isinstance(value, Mapping) else {}
        found |= {f"{key}.{path}": leaf for path, leaf in inner.items()} if inner else {key: value}
    return found


def refuse_other_run(run: Path, changed: Changes) -> None:
    """RunFolderError if a setting is another one that may not be."""
    free = tuple(f"{path}." for path in MAY_CHANGE)
    refused = {path: values for path, values in changed.items() if not f"{path}.".startswith(free)}
    if not refused:
        return
    edited = any(fault.startswith(RECIPE_FILE) for fault in damaged(run))
    hint = f"resume with the run's own recipe: {run_command('run --resume', run)}\n  or start a new run"
    if edited:
        hint = f"put these settings back in {run / RECIPE_FILE}, which was edited or damaged, or start a new run"
    lines = [f"  {line}" for line in told(refused)]
    raise RunFolderError("\n".join([f"{run} was started with another recipe:", *lines]), hint=hint)


def told(changed: Changes) -> list[str]:
    """One line for each change."""
    return [f"{path} was {before!r}, now {now!r}" for path, (before, now) in changed.items()]


@contextlib.contextmanager
def naming_plugin_files(run: Path, given: Sequence[Path]) -> Iterator[None]:
    """A recipe that cannot be read for want of a loose plugin file says which one."""
    try:
        yield
    except RecipeError as error:
        names = {file.stem for file in given}
        if missing := [file for file in plugin_files(run) if Path(file).stem not in names]:
            add = " ".join(f"--plugin {shlex.quote(file)}" for file in missing)
            raise RecipeError(error.problems, hint=f"the run was started with a plugin file: add {add}") from error
        raise


def recipe_of(
    run: Path, overrides: Sequence[str], files: Sequence[Path], recipe: Path | None = None
) -> tuple[Recipe, PluginReport]:
    """The run's own recipe, or another one for it, and the plugins; a loose file that lacks is named."""
    stored = stored_recipe(run)
    with naming_plugin_files(run, files):
        return checked_recipe(recipe or stored, overrides, files, starts=False)


# -- versions ----------------------------------------------------------------------------------------------------


def versions(device: str, plugins: dict[str, str]) -> dict[str, Any]:
    """What versions.json holds: enough to tell why two runs differ."""
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "plugins": plugins,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch_threads": torch.get_num_threads(),
        "git_commit": _git_commit(),
    }


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _git_commit() -> str | None:
    """The commit of this source tree, if it is one."""
    here = Path(__file__).parents[1]
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(here.parents[1])}
    words = ["git", "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(words, cwd=here, env=env, capture_output=True, text=True, timeout=5, check=False)
        return done.stdout.strip() or None
    return None
