"""A plugin to start from: a small, complete distribution of its own, with one working part.

Its files are in the folder ``templates``: one folder per kind, and ``shared``, with what all kinds have and with
the layers that a kind asks for: ``part`` (built with settings of its own) or ``around`` (without), and ``recipe``
(it can stand in one). ``PACKAGE`` in a path becomes the plugin's name, and ``$words`` in a text
(`string.Template`) what the two ``part.toml`` say.
"""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import shutil
import sys
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path
from string import Template

from cbrcore import API_VERSION, CbrError, __version__, suggest
from cbrcore.registry import HOOK_OF_KIND, KINDS

TEMPLATES = Path(__file__).parent / "templates"
SHARED = "shared"
SUFFIX = ".template"
GROUP = "cbrcore.plugins"
"""Of the entry points of plugins."""
LONGEST_NAME = 40
FOLDERS_OF_A_PROJECT = ("build", "dist", "tests")


@dataclass(frozen=True)
class NewPlugin:
    """What was written.

    Attributes:
        component: the part's qualified name.
        files: relative to the folder, sorted.
    """

    folder: Path
    kind: str
    component: str
    files: tuple[str, ...]
    try_it: str
    """A command that uses the part."""


def write_plugin(name: str, kind: str, out: Path) -> NewPlugin:
    """Write a plugin with a part of this kind into the folder `name` in `out`. Nothing is ever overwritten.

    Raises:
        CbrError: the name or the kind will not do, the folder is not empty, or it cannot be written.
    """
    if kind not in KINDS:
        raise CbrError(f"unknown kind {kind!r}. {suggest(kind, KINDS)}")
    fault = name_fault(name)
    if fault is not None:
        better = _better_name(name)
        raise CbrError(f"{name!r} {fault}", hint=better and f"Try: cbr new-plugin {better}")
    words = _words(name, kind)
    files = _texts(name, kind, words)
    folder = out / name
    try:
        _write(folder, files)
    except OSError as error:
        hint = "name another place: --out DIR"
        raise CbrError(f"cannot write {folder}: {error.strerror or error}", hint=hint) from error
    return NewPlugin(folder, kind, f"{name}/{words['component']}", tuple(sorted(files)), words["try"])


def name_fault(name: str) -> str | None:
    """What is wrong with a plugin's name, as the end of a sentence; None if it will do."""
    if len(name) > LONGEST_NAME or not re.fullmatch("[a-z]([a-z0-9_]*[a-z0-9])?", name):
        return f"is no name for a package: take a-z, 0-9 and '_', a letter first, {LONGEST_NAME} at most"
    if keyword.iskeyword(name):
        return "is a keyword of Python"
    if name in sys.stdlib_module_names:
        return "is a module of Python's own library"
    if name in FOLDERS_OF_A_PROJECT:
        return "is the name of another folder in a project"
    if name in entry_points(group=GROUP).names:
        return "is a plugin that is installed"
    return _hides(name)


def _hides(name: str) -> str | None:
    """What of this name is installed here, apart from plugins."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        return f"would hide the module {spec.origin}"
    try:
        return f"would replace the distribution {distribution(name).name}, which is installed"
    except PackageNotFoundError:
        return None


def _better_name(name: str) -> str | None:
    """A name near to this one that will do."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    words = re.sub("[^a-z0-9]+", "_", plain)[: LONGEST_NAME - len("my_")].strip("_")
    return next((better for better in (words, f"my_{words}", "my_plugin") if name_fault(better) is None), None)


def _words(name: str, kind: str) -> dict[str, str]:
    """What the templates' words stand for."""
    words = {
        "package": name,
        "distribution": name.replace("_", "-"),
        "kind": kind,
        "kind_in_words": in_words(kind),
        "hook": HOOK_OF_KIND[kind],
        "api_version": str(API_VERSION),
    }
    for folder in (SHARED, kind):
        text = (TEMPLATES / folder / "part.toml").read_text(encoding="utf-8")
        words |= tomllib.loads(Template(text).substitute(words))
    own = f'"cbr-textrl>={__version__}"'
    return words | {"requirements": ", ".join(filter(None, [own, words["dependencies"]]))}


def in_words(kind: str) -> str:
    """ "retain policy" for "retain_policy"."""
    return kind.replace("_", " ")


def _texts(name: str, kind: str, words: Mapping[str, str]) -> dict[str, str]:
    """Path in the project -> text."""
    texts = {}
    layers = [TEMPLATES / SHARED / layer for layer in ("all", *words["layers"].split())]
    for folder in (*layers, TEMPLATES / kind):
        for path in folder.rglob(f"*{SUFFIX}"):
            target = path.relative_to(folder).as_posix().removesuffix(SUFFIX).replace("PACKAGE", name)
            texts[target] = Template(path.read_text(encoding="utf-8")).substitute(words)
    return texts


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files into a new or empty folder: all of them, or none.

    Raises:
        CbrError: the folder is not empty.
        OSError: a file or folder cannot be made.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise CbrError(f"{folder} is not empty", hint="take another name, or another place: --out DIR")
    folder = Path(os.path.realpath(folder))
    for leftover in folder.parent.glob(f".{folder.name}.*.tmp"):  # of a process that was killed
        shutil.rmtree(leftover)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        for path, text in files.items():
            target = fresh / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
