"""Which modules are mutated, and which test files are asked about each: its own first, then those nearby."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

PLUGINS = (
    "seeded_gat", "vq", "memory", "retain", "a2c", "pretrain", "keys", "continuous",
    "lsh", "projection", "fsq", "mptr", "entity", "nn", "bike", "tpc",
    "kga2c", "text", "joint", "random", "border", "reuse",
)  # fmt: skip
NO_PRODUCT = ("cbrcore/testing.py",)
"""Suites for authors: tests themselves."""

RECIPE = "test_recipe test_recipe_text test_recipe_words test_recipe_parts test_nested_parts test_config"
RUNS = "test_trainer test_runs test_resuming test_records test_recorders"
NEAR = {
    "cbrcore/__init__.py": "test_plugins test_door",
    "cbrcore/cli.py": "test_cli test_plugins test_progress test_errors",
    "cbrcore/commands.py": "test_cli test_errors",
    "cbrcore/config.py": f"test_config test_defaults {RECIPE} test_trainer",
    "cbrcore/console.py": "test_console test_progress test_trainer test_cli",
    "cbrcore/errors.py": "test_registry test_trainer test_recipe test_cli",
    "cbrcore/freshness.py": "test_reasoner test_memory_options plugins/test_cbr_nn",
    "cbrcore/hookspecs.py": "test_plugins test_registry",
    "cbrcore/interfaces.py": "test_types test_trainer test_reasoner test_conformance",
    "cbrcore/plugins.py": "test_plugins test_registry test_thirdparty",
    "cbrcore/registry.py": "test_registry test_plugins test_recipe",
    "cbrcore/rng.py": "test_rng test_trainer",
    "cbrcore/tables.py": "test_console test_trainer test_tables",
    "cbrcore/types.py": "test_types test_reasoner test_trainer test_memory",
    "cbrcore/cycle/evaluation.py": "test_trainer test_parallel test_records",
    "cbrcore/cycle/reasoner.py": "test_reasoner test_memory_options test_joint test_trainer",
    "cbrcore/cycle/retriever.py": "test_reasoner test_memory_options test_trainer test_variants_encoders",
    "cbrcore/cycle/runner.py": "test_trainer test_parallel",
    "cbrcore/recipe": RECIPE,
    "cbrcore/runs": RUNS,
    "cbrcore/runs/assemble.py": f"test_recipe_parts test_nested_parts {RUNS}",
    "cbrcore/runs/trainer.py": f"{RUNS} test_memory_options",
    "cbrcore/runs/__init__.py": f"{RUNS} test_cli",
    "plugins/cbr_a2c": "plugins/test_cbr_a2c test_a2c test_contrastive test_optimizer test_trainer",
    "plugins/cbr_border": "test_border test_types test_recorders",
    "plugins/cbr_entity": "test_variants_encoders",
    "plugins/cbr_joint": "test_joint plugins/test_cbr_joint test_nested_parts",
    "plugins/cbr_keys": "plugins/test_cbr_keys plugins/test_cbr_lsh plugins/test_cbr_continuous "
    "plugins/test_cbr_vq plugins/test_cbr_projection plugins/test_cbr_fsq test_variants_quantizers",
    "plugins/cbr_memory": "test_memory test_memory_options plugins/test_cbr_memory test_trainer",
    "plugins/cbr_mptr": "test_variants_encoders",
    "plugins/cbr_nn": "plugins/test_cbr_nn plugins/test_cbr_text plugins/test_cbr_tpc plugins/test_cbr_kga2c "
    "plugins/test_cbr_bike plugins/test_cbr_seeded_gat",
    "plugins/cbr_pretrain": "plugins/test_cbr_pretrain test_pretraining test_trainer",
    "plugins/cbr_reuse": "plugins/test_cbr_reuse test_reasoner test_memory_options",
}
"""Of a file, or of a folder: files beyond `test_<module>*.py` and `plugins/test_<plugin>*.py`, or their order."""


def modules(root: Path) -> list[str]:
    """All modules that are mutated, relative to the root."""
    folders = [root / "cbrcore", *(root / "plugins" / f"cbr_{name}" for name in PLUGINS)]
    found = (str(path.relative_to(root)) for folder in folders for path in folder.rglob("*.py"))
    return sorted(path for path in found if path not in NO_PRODUCT and "/templates/" not in path)


def files_for(root: Path, module: str) -> list[str]:
    """The test files of a module, in the order in which they are asked."""
    defaults = ["tests/test_defaults.py"] if module.endswith("/config.py") else []
    named = NEAR.get(module) or NEAR.get(str(Path(module).parent)) or ""
    listed = [f"tests/{name}.py" for name in named.split()]
    if module.startswith("plugins/") and module.endswith("/__init__.py"):
        listed.append("tests/test_recipes.py")  # what a plugin offers is used in recipes
    own = _own(root, module)
    first = own if not set(own) & set(listed) else []
    return list(dict.fromkeys([*defaults, *first, *listed, *own]))


def _own(root: Path, module: str) -> list[str]:
    kind, name = module.split("/")[0], module.split("/")[1].removesuffix(".py")
    pattern = f"plugins/test_{name}*.py" if kind == "plugins" else f"test_{name}*.py"
    found: Iterable[Path] = (
        sorted((root / "tests").glob(pattern)) if kind == "plugins" or "." in module[8:] else ()
    )
    plain = f"test_{name}"
    others = [path.name for path in (root / "plugins").iterdir() if path.name.startswith(f"{name}_")]
    same = [
        path
        for path in found
        if path.stem == plain or path.stem.startswith(f"{plain}_")
        if not any(path.stem.startswith(f"test_{other}") for other in others)
    ]
    return [str(path.relative_to(root)) for path in same]
