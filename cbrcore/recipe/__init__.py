"""YAML text -> checked `Recipe`, and back. Everything is validated before anything is built, without torch.

All problems are gathered and raised together, sorted by line: ``file:line: path: what. Did you mean ...?``
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from cbrcore.config import Recipe
from cbrcore.errors import RecipeError, closest, link_to_nowhere
from cbrcore.recipe.model import Checker, apply_overrides
from cbrcore.recipe.text import dump, parse, parse_override
from cbrcore.registry import Registry

MAX_BYTES = 256 * 1024
"""A recipe is a page of text; a log given by mistake is not read to its end."""


def load_recipe(
    path: Path | str, *, overrides: Sequence[str] = (), registry: Registry, starts: bool = False
) -> Recipe:
    """Read and check a recipe file.

    Args:
        path: the YAML file; if there is none, the one of this path that came with the package. Relative paths in
            it start at its folder (symbolic links are followed).
        overrides: ``a.b=c`` texts, as after ``--set``; ``agent.use=other/one`` drops what the file sets for agent.
        registry: the components that its ``use`` lines may name.
        starts: a run is to start with it: the files and folders that it names must be there.

    Raises:
        RecipeError: everything that is wrong with it.
    """
    file = Path(path)
    file = file if file.exists() else shipped(file) or file
    text, folder = _read_file(file), file.resolve().parent
    return read_recipe_text(text, str(path), folder=folder, overrides=overrides, registry=registry, starts=starts)


def read_recipe_text(
    text: str,
    name: str,
    *,
    folder: Path | None = None,
    overrides: Sequence[str] = (),
    registry: Registry,
    starts: bool = False,
) -> Recipe:
    """Check a recipe given as text, which messages call `name`; its relative paths start at `folder`, or here.
    `starts` as in `load_recipe`.

    Raises:
        RecipeError: everything that is wrong with it.
    """
    document = parse(text, name)
    if not isinstance(document.data, dict):
        if not document.flaws:
            document.note((), _not_a_recipe(document.data))
        document.fail_if_wrong()
    apply_overrides(document, map(parse_override, overrides), registry)
    recipe = Checker(document, registry, Path(name).stem, folder or Path.cwd(), starts=starts).check()
    document.fail_if_wrong()
    assert recipe is not None  # or the document has flaws
    return recipe


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if nowhere := link_to_nowhere(path):
            raise RecipeError([nowhere]) from None
        near = closest(path.name, [other.name for other in path.parent.glob("*.y*ml")])
        raise RecipeError([f"{path}: no such file." + (f" Did you mean {near!r}?" if near else "")]) from None
    except IsADirectoryError:
        raise RecipeError([f"{path}: is a folder; name the recipe file in it"]) from None
    except OSError as error:
        raise RecipeError([f"{path}: cannot be read: {error.strerror}"]) from error
    if len(content) > MAX_BYTES:
        raise RecipeError([f"{path}: is larger than {MAX_BYTES // 1024} KiB, so it is no recipe"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecipeError([f"{path}:{line}: is not UTF-8 text; save it as UTF-8"]) from error


def _not_a_recipe(data: Any) -> str:
    if data is None:
        return "is empty; a recipe starts with 'schema: 1'"
    kind = "a list" if isinstance(data, list) else "a single value"
    return f"is {kind}; a recipe is a section of 'key: value' lines that starts with 'schema: 1'"


def dump_recipe(recipe: Recipe) -> str:
    """The resolved recipe as YAML: qualified names, every setting; `read_recipe_text` gives an equal one."""
    return dump(plain_recipe(recipe))


def plain_recipe(recipe: Recipe) -> dict[str, Any]:
    """The resolved recipe as plain data."""
    data = recipe.model_dump(mode="json", by_alias=True)
    schema, sections = data.pop("schema_version"), data.pop("sections")
    return {"schema": schema, **{key: value for key, value in data.items() if value is not None}, **sections}


# -- recipes that come with the package --------------------------------------------------------------------------

DISTRIBUTION = "cbr-textrl"


def shipped(path: Path) -> Path | None:
    """The file of a path like ``recipes/quickstart.yaml``; None if no such file came with the package.

    In a source tree, and so in an editable install, they lie beside the packages; a wheel has them in share/cbr.
    """
    if path.parts[:1] != ("recipes",) or ".." in path.parts:
        return None
    beside = Path(__file__).resolve().parents[2] / path
    if beside.is_file():
        return beside
    with suppress(PackageNotFoundError):
        for file in distribution(DISTRIBUTION).files or ():
            if file.as_posix().endswith(f"/share/cbr/{path.as_posix()}"):
                return Path(str(file.locate())).resolve()
    return None
