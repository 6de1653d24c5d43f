"""The recipes that come with the package, and the numbers of the paper among them.

In a source tree, and so in an editable install, they lie beside the packages; a wheel has them in ``share/cbr``.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

DISTRIBUTION = "cbr-textrl"
RECIPES = "recipes"
SHARE = "share/cbr"


def shipped(path: Path) -> Path | None:
    """The file of a path like ``recipes/quickstart.yaml``; None if no such file came with the package."""
    if path.parts[:1] != (RECIPES,) or ".." in path.parts:
        return None
    beside = Path(__file__).resolve().parents[1] / path
    if beside.is_file():
        return beside
    try:
        files = distribution(DISTRIBUTION).files or []
    except PackageNotFoundError:
        return None
    wanted = f"/{SHARE}/{path.as_posix()}"
    return next((Path(str(file.locate())).resolve() for file in files if file.as_posix().endswith(wanted)), None)
