"""Which recipes there are: those that came with the package, and those of the working directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cbrcore.errors import CbrError, suggest
from cbrcore.recipe import MAX_BYTES, shipped

FOLDER = "recipes"
QUICKSTART = f"{FOLDER}/quickstart.yaml"
ORDER = (".", FOLDER, f"{FOLDER}/studies", f"{FOLDER}/tables", f"{FOLDER}/smoke")
"""Folders as they are listed, what is one's own first; others come last."""
_KEYS = re.compile(rb"^(schema|environment) *:", re.MULTILINE)


@dataclass(frozen=True)
class RecipeFile:
    """A recipe's file.

    Attributes:
        path: what one types, as in ``cbr run recipes/quickstart.yaml``.
        file: where it lies.
        own: it lies in the working directory, not with the package alone.
    """

    path: str
    file: Path
    own: bool

    @property
    def folder(self) -> str:
        """As in "recipes/tables"; "." for the working directory itself."""
        return str(PurePosixPath(self.path).parent)

    @property
    def name(self) -> str:
        """Without folder and ending."""
        return PurePosixPath(self.path).stem


def shipped_folder() -> Path | None:
    """Where the recipes that came with the package lie; None if none did."""
    found = shipped(Path(QUICKSTART))
    return found and found.parent


def recipe_files(here: Path | None = None) -> list[RecipeFile]:
    """All recipes, folder by folder; a file of the working directory (`here`) hides a shipped one of its path."""
    here = here or Path.cwd()
    found: dict[str, RecipeFile] = {}
    if (folder := shipped_folder()) is not None:
        found |= {path: RecipeFile(path, file, own=False) for path, file in _below(folder)}
    found |= {path: RecipeFile(path, file, own=True) for path, file in _below(here / FOLDER)}
    for file in sorted(here.glob("*.yaml")):
        found[file.name] = RecipeFile(file.name, file, own=True)
    recipes = [each for each in found.values() if looks_like_recipe(each.file)]
    return sorted(recipes, key=lambda each: (_rank(each.folder), each.path != QUICKSTART, each.path))


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*.yaml")):
        yield f"{FOLDER}/{file.relative_to(folder).as_posix()}", file


def _rank(folder: str) -> tuple[int, str]:
    return ORDER.index(folder) if folder in ORDER else len(ORDER), folder


def looks_like_recipe(file: Path) -> bool:
    """Whether it has lines ``schema: ...`` and ``environment: ...``, as every recipe does."""
    try:
        with file.open("rb") as opened:
            return len(set(_KEYS.findall(opened.read(MAX_BYTES)))) == 2
    except OSError:
        return False


def find_recipe(name: str) -> RecipeFile:
    """The recipe of a path ("recipes/tables/twc.yaml"), a shorter one ("tables/twc"), or a name ("twc"); of a path
    outside of these folders, too.

    Raises:
        CbrError: there is none of this name, or several.
    """
    known = recipe_files()
    wanted = name.removesuffix(".yaml")
    exact = [each for each in known if each.path.removesuffix(".yaml") in (wanted, f"{FOLDER}/{wanted}")]
    found = exact[:1] or [each for each in known if f"/{each.path.removesuffix('.yaml')}".endswith(f"/{wanted}")]
    if len(found) == 1:
        return found[0]
    if found:
        paths = ", ".join(each.path for each in found)
        raise CbrError(f"several recipes are called {name!r}: {paths}", hint="give one of these paths")
    if Path(name).is_file():
        return RecipeFile(name, Path(name), own=True)
    raise CbrError(_unknown(name, known), hint="see them all: cbr recipes")


def _unknown(name: str, known: list[RecipeFile]) -> str:
    names = [each.name for each in known]
    said = suggest(PurePosixPath(name).stem, names)
    return f"no recipe {name!r}.{f' {said}' if said.startswith('Did') else ''}"
