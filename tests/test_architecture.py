"""Who may import whom, read from the source. A new module must be added to the table below, on purpose."""

from __future__ import annotations

import ast
import re
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

LEAVES = {"errors", "types", "rng", "freshness"}
"""Import nothing of ours; everybody may import them."""

EVERYTHING = "*"
TABLE = {
    # the contract for authors
    "hookspecs": "",
    "config": "",
    "interfaces": "",
    "registry": "hookspecs",
    "__init__": "",
    # plugins, recipes, the algorithm
    "plugins": "hookspecs registry",
    "recipe": "config interfaces recipe registry",
    "cycle": "cycle interfaces",
    # where parts meet
    "console": "",
    "tables": "console",
    "runs": "config console cycle interfaces recipe registry runs tables",
    "commands": "config console interfaces plugins recipe registry runs tables",
    "cli": "console plugins registry",
    "testing": EVERYTHING,
}
"""room or module -> rooms it may import besides the leaves, at its top or in a function."""

LATE = {
    "console": {"plugins", "recipe"},
    "runs": {"plugins"},
    "__init__": set(),
    "commands": {"__init__"},
    "cli": {"__init__", "cli"},
}
"""Further rooms that are imported inside functions alone, when a command or a script gets there."""

WITHIN = {
    "cycle": {"runner": "", "retriever": "", "reasoner": "retriever",
              "evaluation": "reasoner runner", "__init__": ""},
    "runs": {"files": "", "folder": "files", "checkpoint": "files", "assemble": "", "resuming": "files folder",
             "results": "folder",
             "trainer": "assemble checkpoint folder results", "__init__": EVERYTHING},
}  # fmt: skip
"""Of a room: module -> modules of the same room that it may import. The runner knows no algorithm."""

TYPE_CHECKING_ONLY = {
    "__init__": {"config", "cycle", "hookspecs", "interfaces", "plugins", "recipe", "registry", "runs"},
    "hookspecs": {"registry"},
    "interfaces": {"config", "cycle"},
    "console": {"config", "plugins"},
    "runs": {"plugins"},
}
"""Further imports that are allowed for annotations alone."""

LIGHT = {
    "__init__", "cli", "commands", "config", "console", "errors", "hookspecs", "interfaces", "plugins", "recipe",
    "registry", "tables", "types",
}  # fmt: skip
"""Import nothing heavy at their top level: `cbr --help`, `list-plugins`, `show` and `check` need these alone."""

KEPT = {"cbr_twc.exclusion": "cbr_twc.pool", "cbr_twc.pool": "cbr_twc.environment"}
"""Module -> the only one that may import it or name it: what reads the names in games that are measured."""

HEAVY = {
    "torch",
    "torch_geometric",
    "transformers",
    "safetensors",
    "textworld",
    "jericho",
    "spacy",
    "altair",
    "sklearn",
}

SHARED = {
    "cbr_nn", "cbr_commonsense", "cbr_keys", "cbr_a2c", "cbr_memory", "cbr_report", "cbr_open", "cbr_sweep",
    "cbr_isolate", "cbr_cache", "cbr_border", "cbr_reuse",
}  # fmt: skip
"""Plugins and packages that others may import: networks, knowledge, keys, losses, case files, figures, opened
runs, a table's variants, child processes, caches on disk, checked parts, the paper's rule of reuse."""
PLAIN = {"cbr_nn", "cbr_commonsense", "cbr_keys", "cbr_open", "cbr_isolate", "cbr_cache", "cbr_border"}
"""Of these, packages that offer nothing themselves."""

PUBLIC = {
    "config",
    "console",
    "cycle",
    "errors",
    "freshness",
    "interfaces",
    "recipe",
    "registry",
    "rng",
    "runs",
    "tables",
    "testing",
    "types",
}
"""Rooms of cbrcore that plugins may import, besides `cbrcore` itself."""
HOST = {("runs", "assemble")}
"""What they may not: where parts meet. For annotations they may."""

DEFAULTS = ROOT / "cbrcore" / "recipe" / "model.py"
"""The one file of the core that names plugins: the table of default parts."""

MAX_LINES = 400
LONG = {"cbrcore/interfaces.py", "cbrcore/testing.py"}
"""The contract of all kinds, and its suites, each in one place."""


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
        extra = extra | (set() if found.top_level else LATE.get(module, set()))
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
        hidden = first == "cbrcore" and not _is_public(rest) and not found.for_types
        if first == "" or other_plugin or hidden:
            wrong.append(f"line {found.line}: {found.target}")
    return wrong


def _is_public(names: list[str]) -> bool:
    if len(names) <= 1:
        return not names or names[0] in {*cbrcore.__all__, *PUBLIC}
    host = tuple(names[:2]) in HOST
    return names[0] in PUBLIC and not host and not any(name.startswith("_") for name in names)


def echoes(source: str) -> list[int]:
    """Lines that write texts to a terminal by themselves; a literal is no text of others."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    ways = re.compile(r"typer\.(echo|secho|print)|sys\.(stdout|stderr)\.write")
    direct = [call for call in calls if ways.fullmatch(ast.unparse(call.func))]
    return [call.lineno for call in direct if not isinstance(call.args[0], ast.Constant)]


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


@pytest.mark.parametrize("path", [path for path in CORE if key_of(path) in WITHIN], ids=relative)
def test_the_modules_of_a_room_import_what_the_table_allows(path: Path):
    assert wrong_within(key_of(path), path.stem, path.read_text()) == []


def wrong_within(room: str, module: str, source: str) -> list[str]:
    """What the room's own table forbids in a module of it."""
    allowed = WITHIN[room].get(module, "").split()
    found = {(one.line, (*one.target.split("."), "", "")[2]) for one in imports_of(source) if not one.for_types
             and one.target.startswith(f"cbrcore.{room}.")}  # fmt: skip
    return [
        f"line {line}: {name}" for line, name in sorted(found) if name not in allowed and EVERYTHING not in allowed
    ]


def test_the_table_has_no_cycle():
    def reach(module: str, seen: tuple[str, ...]) -> None:
        assert module not in seen, " -> ".join([*seen, module])
        allowed = TABLE.get(module, "")
        for target in [] if allowed == EVERYTHING else allowed.split():
            if target != module:  # the modules of a package may import each other
                reach(target, (*seen, module))

    for module in TABLE:
        reach(module, ())


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_the_core_names_no_plugin(path: Path):
    """Neither in an import nor in a string, nor in what it says; but for the table of defaults."""
    if path != DEFAULTS:
        assert named_plugins(path.read_text()) == []


def named_plugins(source: str) -> list[str]:
    """The plugins' names that occur anywhere in a source."""
    return sorted({found for found in re.findall(r"\bcbr_\w+", source) if found in PLUGIN_NAMES})


PLUGIN_NAMES = {package.name for package in PACKAGES}


def test_the_core_is_lean():
    """The suites of `cbrcore.testing` are tests, which authors run: they do not count."""
    counted = [path for path in CORE if key_of(path) != "testing"]
    assert sum(len(path.read_text().splitlines()) for path in counted) <= 7026
    assert len(counted) <= 31


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


def naming(module: str, sources: dict[str, str]) -> set[str]:
    """The modules that import this one, whole or in part, or name it in a string."""
    return {
        name
        for name, source in sources.items()
        if module in source or any(f"{found.target}.".startswith(f"{module}.") for found in imports_of(source))
    }


@pytest.mark.parametrize("module", KEPT)
def test_a_module_that_one_other_may_use_is_named_nowhere_else(module: str):
    sources = {
        ".".join(path.relative_to(ROOT / "plugins").with_suffix("").parts): path.read_text()
        for path in PLUGIN_FILES
    }
    sources |= {relative(path): path.read_text() for path in CORE}
    assert module in sources
    assert naming(module, sources) == {KEPT[module]}


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
    assert set(declared) == PLUGIN_NAMES - PLAIN
    assert all(name == value for name, value in declared.items())


def test_the_settings_of_a_plugin_are_in_its_config_module():
    for component in load_plugins().registry:
        if (ROOT / "plugins" / component.plugin).is_dir():
            module = component.config.partition(":")[0]
            assert module in (f"{component.plugin}.config", "cbrcore.config"), component.qualified
            assert component.factory.startswith(f"{component.plugin}."), component.qualified


# Everywhere


def test_library_code_does_not_print():
    assert {relative(path): lines for path in [*CORE, *PLUGIN_FILES] if (lines := prints(path.read_text()))} == {}


def test_texts_reach_the_terminal_through_the_console_alone():
    """`cbrcore.console.echo` shows control characters as text."""
    ours = [path for path in [*CORE, *PLUGIN_FILES] if relative(path) != "cbrcore/console.py"]
    assert {relative(path): found for path in ours if (found := echoes(path.read_text()))} == {}


def test_no_module_is_long():
    lengths = {relative(path): len(path.read_text().splitlines()) for path in [*CORE, *PLUGIN_FILES]}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES and path not in LONG} == {}


# The rules themselves


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("errors", "from cbrcore.types import Action"),
        ("interfaces", "import cbrcore.cycle.retriever"),
        ("interfaces", "def f():\n    from cbrcore import recipe"),
        ("cycle", "from cbrcore import CbrError"),
        ("cycle", "from cbrcore.runs.folder import RunFolder"),
        ("config", "from .errors import CbrError"),
        ("runs", "from cbr_vq.quantizer import VectorQuantizer"),
        ("runs", "from cbrcore.plugins import load_plugins"),
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
        ("cycle", "from cbrcore.errors import CbrError\nimport torch"),
        ("runs", "from cbrcore.cycle.reasoner import Trace\nfrom cbrcore.rng import Streams"),
        ("runs", "def f():\n    from cbrcore.plugins import load_plugins"),
        ("cli", "def f():\n    from cbrcore import __version__"),
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
        "def f():\n    from cbrcore.commands import run",
        "from cbr_joint.learner import JointLearner",
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


@pytest.mark.parametrize(
    ("room", "module", "source"),
    [
        ("cycle", "runner", "from cbrcore.cycle.reasoner import CaseBasedReasoner"),
        ("cycle", "retriever", "def f():\n    from cbrcore.cycle.reasoner import Trace"),
        ("runs", "folder", "from cbrcore.runs.trainer import Trainer"),
    ],
)
def test_a_room_has_an_order(room: str, module: str, source: str):
    assert len(wrong_within(room, module, source)) == 1


@pytest.mark.parametrize(
    "source", ["x = 'cbr_vq/vq'", "import cbr_vq", '"""As in `cbr_text/text`."""', "# cbr_sweep", "f('cbr_joint')"]
)
def test_a_plugins_name_is_seen_wherever_it_stands(source: str):
    assert len(named_plugins(source)) == 1


@pytest.mark.parametrize("source", ["cbr_api_version = 1", "cbr_", "x = 'cbr_something_else/x'"])
def test_other_words_are_no_plugins(source: str):
    assert named_plugins(source) == []


@pytest.mark.parametrize(
    "source",
    ["from cbr_twc.exclusion import x", "from cbr_twc import exclusion", "if x:\n    import cbr_twc.exclusion",
     "import_module('cbr_twc.exclusion')", "f('cbr_twc.exclusion:x')"],
)  # fmt: skip
def test_whoever_names_a_module_is_seen(source: str):
    assert naming("cbr_twc.exclusion", {"a": source, "b": "import cbr_twc.files\nexclusion = 1"}) == {"a"}


def test_an_echo_is_seen():
    assert echoes("typer.echo(x)\ntyper.echo('x')\nif True:\n    sys.stderr.write(f'{x}')") == [1, 4]


def test_a_print_is_seen():
    assert prints("import sys\nsys.stdout.write('x')\nif True:\n    print('x')") == [4]
