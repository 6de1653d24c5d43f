"""Who may import whom, read from the source. A new module must be added to the table below, on purpose."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import cbrcore
from cbrcore.plugins import load_plugins

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "cbrcore").rglob("*.py"))
PACKAGES = sorted(folder for folder in (ROOT / "plugins").iterdir() if any(folder.glob("*.py")))
PLUGIN_FILES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))

LEAVES = {"errors", "types", "rng", "timing", "freshness", "interrupt", "shipped"}
"""Import nothing of ours; everybody may import them."""

EVERYTHING = "*"
TABLE = {
    # the contract for authors
    "interfaces": "",
    "config": "",
    "registry": "",
    "hookspecs": "",
    "__init__": "config hookspecs interfaces",
    # plugins and recipes: torch-free
    "loosefile": "",
    "plugins": "hookspecs loosefile registry",
    "yamltext": "",
    "draft": "yamltext",
    "suggestions": "yamltext",
    "explain": "config yamltext",
    "sweep": "config",
    "checker": "config sweep draft explain registry suggestions yamltext",
    "recipe": "checker config draft registry yamltext",
    "listing": "sweep checker config explain plugins recipe registry",
    "console": "",
    "records": "config",
    # the algorithm
    "casefiles": "interfaces",
    "memory": "casefiles interfaces",
    "retriever": "casefiles interfaces memory",
    "reasoner": "interfaces memory retriever",
    "runner": "interfaces",  # knows no algorithm
    "evaluation": "config interfaces memory reasoner records runner",
    "training": "casefiles config evaluation interfaces memory reasoner records retriever runner training",
    # where parts meet
    "assemble": "config interfaces memory reasoner records registry retriever runner training",
    "experiment": "__init__ assemble config evaluation interfaces records runner training",
    "report": "__init__ assemble config explanations play plugins reasoner recipe records report sweep trained"
    " yamltext",
    "testing": "config hookspecs interfaces memory plugins reasoner recipe registry runner",
    "pretraining": "assemble config interrupt plugins records retriever training",
    "session": "__init__ assemble config console evaluation experiment plugins pretraining recipe records registry"
    " trained training",
    "trained": "assemble config plugins recipe records training",
    "explanations": "",
    "play": "evaluation explanations interfaces reasoner runner trained",
    "cases": "assemble casefiles plugins recipe records retriever trained training",
    "caselist": "casefiles cases interfaces memory plugins records trained",
    "cases_html": "caselist records",
    "selftest": "interfaces registry",
    "doctor": "assemble checker interfaces plugins registry selftest",
    "newplugin": "__init__ hookspecs plugins registry",
    # torch-free again: what a sweep needs besides the runs' own processes
    "sweeping": "checker config console explain interfaces listing recipe records registry sweep sweeping"
    " yamltext",
    "cli": EVERYTHING,
}  # fmt: skip
"""module -> modules it may import besides the leaves."""

TYPE_CHECKING_ONLY = {"hookspecs": {"registry"}, "console": {"training"}}
"""Further imports that are allowed for annotations alone."""

LIGHT = {
    "__init__", "checker", "cli", "config", "console", "doctor", "draft", "errors", "explain",
    "explanations", "hookspecs", "interfaces", "listing", "loosefile", "newplugin",
    "plugins", "recipe", "registry", "selftest", "shipped", "suggestions", "sweep", "types", "yamltext",
}  # fmt: skip
"""Import nothing heavy at their top level: `cbr --help`, `list-plugins`, `show` and `check` need these alone."""

HEAVY = {"torch", "torch_geometric", "transformers", "safetensors", "textworld", "jericho", "spacy"}

SHARED = {"cbr_nn", "cbr_commonsense", "cbr_keys"}
"""Packages that several plugins share; they offer no component."""

PUBLIC = {
    "config",
    "errors",
    "freshness",
    "interfaces",
    "registry",
    "rng",
    "testing",
    "timing",
    "training",
    "types",
}
"""Modules of cbrcore that plugins may import, besides `cbrcore` itself."""

MAY_PRINT = {"cli", "console"}
MAX_LINES = 400


@dataclass(frozen=True)
class Import:
    """One imported module (or name, for ``from cbrcore import name``) and how it is imported."""

    target: str
    line: int
    top_level: bool = True
    for_types: bool = False


def imports_of(source: str) -> list[Import]:
    return list(_imports(ast.parse(source), top_level=True, for_types=False))


def _imports(node: ast.AST, *, top_level: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inner = top_level and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typed = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, top_level, for_types) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                target = f"{'.' * child.level}{child.module or ''}.{alias.name}"
                yield Import(target, child.lineno, top_level, for_types)
        yield from _imports(child, top_level=inner, for_types=typed)


def core_module(target: str) -> str | None:
    """The table's key for an import: "cbr_a2c.a2c.loss" -> "training"; None if not of cbrcore."""
    first, _, rest = target.partition(".")
    if first != "cbrcore":
        return None
    name = rest.partition(".")[0]
    here = ROOT / "cbrcore" / name
    return name if name and (here.is_dir() or here.with_suffix(".py").exists()) else "__init__"


def key_of(path: Path) -> str:
    return path.relative_to(ROOT / "cbrcore").parts[0].removesuffix(".py")


def wrong_imports(module: str, source: str) -> list[str]:
    """What the table forbids in this module of cbrcore."""
    allowed = set() if module in LEAVES else {*LEAVES, *TABLE.get(module, "").split()}
    wrong = []
    for found in imports_of(source):
        target = core_module(found.target)
        extra = TYPE_CHECKING_ONLY.get(module, set()) if found.for_types else set()
        if found.target.startswith((".", "cbr_")):
            wrong.append(
                f"line {found.line}: {found.target!r} is relative, or a plugin, which the core may not know"
            )
        elif target is not None and EVERYTHING not in allowed and target not in allowed | extra:
            wrong.append(f"line {found.line}: {module} may not import {target}")
    return wrong


def heavy_imports(source: str) -> list[str]:
    """Heavy modules imported when this source is imported."""
    return [
        f"line {found.line}: {found.target}"
        for found in imports_of(source)
        if found.top_level and not found.for_types and found.target.partition(".")[0] in HEAVY
    ]


def wrong_plugin_imports(package: str, source: str) -> list[str]:
    """What a plugin may not import: other plugins, and what is not public in the core."""
    wrong = []
    for found in imports_of(source):
        first, *rest = found.target.split(".")
        other_plugin = first.startswith("cbr_") and first not in {package, *SHARED}
        if first == "" or other_plugin or (first == "cbrcore" and not _is_public(rest)):
            wrong.append(f"line {found.line}: {found.target}")
    return wrong


def _is_public(names: list[str]) -> bool:
    if len(names) <= 1:
        return not names or names[0] in cbrcore.__all__
    return names[0] in PUBLIC and not any(name.startswith("_") for name in names)


def prints(source: str) -> list[int]:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# The core


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_every_module_of_the_core_is_in_the_table(path: Path):
    assert key_of(path) in {*TABLE, *LEAVES}, (
        f"{relative(path)} is new: add it to TABLE in tests/test_architecture.py with the modules it may import"
    )


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_the_core_imports_what_the_table_allows(path: Path):
    assert wrong_imports(key_of(path), path.read_text()) == []


def test_the_table_has_no_cycle():
    def reach(module: str, seen: tuple[str, ...]) -> None:
        assert module not in seen, " -> ".join([*seen, module])
        allowed = TABLE.get(module, "")
        for target in [] if allowed == EVERYTHING else allowed.split():
            if target != module:  # the modules of a package may import each other
                reach(target, (*seen, module))

    for module in TABLE:
        reach(module, ())


@pytest.mark.parametrize("path", [path for path in CORE if key_of(path) in LIGHT], ids=relative)
def test_light_modules_import_nothing_heavy(path: Path):
    source = path.read_text()
    assert heavy_imports(source) == []
    ours = {core_module(found.target) for found in imports_of(source) if found.top_level and not found.for_types}
    assert ours - {None} <= LIGHT


# Plugins


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=relative)
def test_plugins_import_public_names_and_never_each_other(path: Path):
    package = path.relative_to(ROOT / "plugins").parts[0]
    assert wrong_plugin_imports(package, path.read_text()) == []


LIGHT_PLUGIN_FILES = [
    path for path in PLUGIN_FILES if path.name in ("__init__.py", "config.py") and path.parent in PACKAGES
]


@pytest.mark.parametrize("path", LIGHT_PLUGIN_FILES, ids=relative)
def test_what_declares_a_plugin_imports_nothing_heavy(path: Path):
    source = path.read_text()
    assert heavy_imports(source) == []
    for found in imports_of(source):
        first, *rest = found.target.split(".")
        if found.top_level and not found.for_types and first.startswith("cbr_"):
            assert rest[:1] in (["config"], []), f"line {found.line}: {found.target} may import something heavy"


@pytest.mark.parametrize("package", PACKAGES, ids=relative)
def test_every_plugin_has_a_readme(package: Path):
    text = (package / "README.md").read_text() if (package / "README.md").exists() else ""
    assert text.startswith("# "), f"{relative(package)}/README.md is missing or has no title"


def test_every_plugin_is_declared_as_an_entry_point_of_its_own_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["cbrcore.plugins"]
    assert {package.name for package in PACKAGES} - SHARED == set(declared)
    assert all(name == value for name, value in declared.items())


def test_the_settings_of_a_plugin_are_in_its_config_module():
    for component in load_plugins().registry:
        if (ROOT / "plugins" / component.plugin).is_dir():
            module = component.config.partition(":")[0]
            assert module in (f"{component.plugin}.config", "cbrcore.config"), component.qualified
            assert component.factory.startswith(f"{component.plugin}."), component.qualified


# Everywhere


def test_library_code_does_not_print():
    silent = [path for path in [*CORE, *PLUGIN_FILES] if path not in CORE or key_of(path) not in MAY_PRINT]
    assert {relative(path): lines for path in silent if (lines := prints(path.read_text()))} == {}


def test_no_module_is_long():
    lengths = {relative(path): len(path.read_text().splitlines()) for path in [*CORE, *PLUGIN_FILES]}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


# The rules themselves


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("errors", "from cbrcore.types import Action"),
        ("interfaces", "import cbr_memory.memory"),
        ("runner", "from cbrcore.cycle.reasoner import CaseBasedReasoner"),
        ("runner", "def f():\n    from cbrcore import reasoner"),
        ("memory", "from cbrcore import CbrError"),
        ("reasoner", "from cbr_a2c.a2c import loss"),
        ("config", "from .errors import CbrError"),
        ("assemble", "from cbr_vq.quantizer import VectorQuantizer"),
        ("cli", "import cbr_vq"),
        ("hookspecs", "from cbrcore.registry import Registrar"),
        ("brand_new", "from cbrcore.config import Settings"),
    ],
)
def test_the_table_catches(module: str, source: str):
    assert len(wrong_imports(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("memory", "from cbrcore.errors import CbrError\nimport torch"),
        ("training", "from cbr_a2c.a2c import loss\nfrom cbrcore.rng import Streams"),
        ("cli", "from cbrcore import __version__, listing"),
        (
            "hookspecs",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from cbrcore.registry import Registrar",
        ),
    ],
)
def test_the_table_allows(module: str, source: str):
    assert wrong_imports(module, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch",
        "from torch.nn import Module",
        "import os, textworld",
        "try:\n    import spacy\nexcept ImportError:\n    pass",
        "class A:\n    import jericho",
    ],
)
def test_heavy_imports_are_seen(source: str):
    assert len(heavy_imports(source)) == 1


@pytest.mark.parametrize(
    "source",
    ["def f():\n    import torch", "if TYPE_CHECKING:\n    import torch", "import torchlike", "import numpy"],
)
def test_imports_that_cost_nothing_are_not_heavy(source: str):
    assert heavy_imports(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import cbr_text",
        "from cbr_text.agent import TextAgent",
        "from cbrcore.plugins import load_plugins",
        "from cbrcore.runs.assemble import assemble",
        "from cbrcore import plugins",
        "from cbrcore.interfaces import _hidden",
        "from cbrcore.cli import main",
        "from . import config",
        "def f():\n    from cbrcore.recipe import load_recipe",
    ],
)
def test_a_plugin_may_not(source: str):
    assert len(wrong_plugin_imports("cbr_vq", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from cbrcore import ComponentConfig, hookimpl",
        "from cbrcore.interfaces import Quantizer",
        "import cbr_vq.kmeans",
        "from cbr_nn.layers import Gru",
        "from cbr_a2c.contrastive import contrastive_loss",
        "import torch",
    ],
)
def test_a_plugin_may(source: str):
    assert wrong_plugin_imports("cbr_vq", source) == []


def test_a_print_is_seen():
    assert prints("import sys\nsys.stdout.write('x')\nif True:\n    print('x')") == [4]
