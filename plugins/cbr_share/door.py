"""What the command line asks for when a FILE.cbr stands where a run is meant, and after ``cbr run --from``."""

from __future__ import annotations

import json
from pathlib import Path

from cbr_share.unpacking import unpacked as unpacked
from cbrcore.console import run_folder, say
from cbrcore.errors import RunFolderError
from cbrcore.runs.folder import plugin_files, stored_recipe

PART = "cbr_share/start"


def beginning(source: Path, recipe: Path | None) -> tuple[Path, list[str]]:
    """How a run begins with what another one has learned.

    Args:
        source: FILE.cbr, or the folder of a run.
        recipe: of the new run; that of the source if left out.

    Returns:
        (the recipe, what is set in it).

    Raises:
        CbrError: the source is no run, or damaged.
    """
    folder = run_folder(source)
    own = stored_recipe(folder)
    if not (folder / "checkpoints").is_dir():
        raise RunFolderError(f"{source} has no checkpoint", hint="train first: cbr run")
    if recipe is None and (loose := plugin_files(folder)):
        say(f"note: {source.name} needs its plugin files: {' '.join(f'--plugin {name}' for name in loose)}")
    part = json.dumps({"use": PART, "file": str(source.resolve())})
    sets = ["memory.cases=null"] if recipe is None and "memory" in _keys(own) else []
    return recipe or own, [f"training.pretrain={part}", *sets]


def _keys(recipe: Path) -> set[str]:
    from cbrcore.recipe.text import parse

    data = parse(recipe.read_text(encoding="utf-8"), str(recipe)).data
    return set(data) if isinstance(data, dict) else set()
