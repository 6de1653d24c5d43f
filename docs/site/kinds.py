"""A page for each kind of plugin: what a thing of the kind must do, and a plugin with one that works."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from words import hook_says, said

from cbr_new_plugin.writing import in_words, write_plugin
from cbrcore import hookspecs, interfaces
from cbrcore.registry import HOOK_OF_KIND, KINDS

STARTER = "my_plugin"
"""The name of the plugin that the pages show."""


def kind_page(kind: str) -> str:
    """What `cbr new-plugin` writes for this kind, and the contract."""
    with tempfile.TemporaryDirectory() as folder:
        made = write_plugin(STARTER, kind, Path(folder))
        files = {file: (made.folder / file).read_text(encoding="utf-8") for file in made.files}
    own = sorted((file for file in files if file.startswith(f"{STARTER}/")), key=_declared_first)
    shown = [*own, f"tests/test_{STARTER}.py", *(["recipe.yaml"] if "recipe.yaml" in files else [])]
    texts = [
        f"# {in_words(kind).capitalize()}\n\nHook: `{HOOK_OF_KIND[kind]}`. {hook_says(kind)}\n",
        f"```sh\ncbr new-plugin {STARTER} --kind {kind}\n```\n",
        f"writes a package with `{made.component}`. What follows stands in it; its tests run with ours.\n",
        *(_file(file, files[file]) for file in shown),
        f"Once it is installed (`pip install -e .`), try it: `{made.try_it}`\n",
        *(["## What it must do\n"] if contracts(kind) else []),
        *(f"::: cbrcore.interfaces.{name}\n" for name in contracts(kind)),
    ]
    return "\n".join(texts)


def _declared_first(file: str) -> tuple[bool, bool, str]:
    return not file.endswith("__init__.py"), not file.endswith("config.py"), file


def _file(name: str, text: str) -> str:
    return f'```{"yaml" if name.endswith(".yaml") else "python"} title="{name}"\n{text.rstrip()}\n```\n'


def kinds_of_contracts() -> dict[str, str]:
    """Name in `cbrcore.interfaces` -> the kind on whose page it stands."""
    return {name: kind for kind in KINDS for name in contracts(kind)}


def contracts(kind: str) -> list[str]:
    """The names in `cbrcore.interfaces` that the hook of this kind names, and no earlier one does."""
    earlier = {name for other in KINDS[: KINDS.index(kind)] for name in _named(other)}
    return [name for name in _named(kind) if name not in earlier]


def _named(kind: str) -> list[str]:
    text = said(getattr(hookspecs, HOOK_OF_KIND[kind]))
    found = re.findall(r"`(?:cbrcore\.interfaces\.)?([A-Z]\w+)`", text)
    return [name for name in found if hasattr(interfaces, name)]
