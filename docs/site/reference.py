"""The reference: keys of a recipe, settings of sections and parts, the recipes, the public names of Python."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel
from words import cell, said

import cbrcore
from cbr_new_plugin.writing import in_words
from cbr_show.describing import WRITTEN, describe
from cbrcore.config import Recipe
from cbrcore.recipe.model import DEFAULTS, DOOR, SECTIONS, settings_class
from cbrcore.registry import Component, Registry

ROOT = Path(__file__).parents[2]
MODULES = {
    "config": "Settings", "cycle.reasoner": "The cycle", "errors": "Errors", "hookspecs": "Hooks",
    "interfaces": "What parts do", "plugins": "Plugins", "recipe": "Recipes", "registry": "The registry",
    "rng": "Random numbers", "types": "Types",
}  # fmt: skip
"""Module of cbrcore -> what its public names are about."""

KEYS = """# Keys of a recipe

`schema: 1` stands first. The pages of this chapter are made from the classes that check a recipe; `cbr show NAME`
prints the same, and `cbr schema` writes it for editors. [A recipe](../recipes.md) tells how the keys go together.

| key | what stands there |
|---|---|
"""


def keys_page(registry: Registry) -> str:
    """Every key that a recipe may have at its top."""
    fields = [
        (key, found) for key, found in Recipe.model_fields.items() if key not in ("schema_version", "sections")
    ]
    rows = [f"| `{key}` | {_key_says(key, found.description or '')} |" for key, found in fields]
    rows += [
        f"| `{each.name}` | a section: [its settings](sections.md#{each.name}) |" for each in _added(registry)
    ]
    return KEYS + "\n".join(rows) + "\n"


def _key_says(key: str, description: str) -> str:
    if key == "recorders":
        return (
            f"a list of parts: [recorder](recorder.md); without it `{DEFAULTS['recorder']}`, if that is installed"
        )
    if key in WRITTEN:
        usual = f"; without a `use` line `{DEFAULTS[key]}`" if key in DEFAULTS else ""
        return f"a part: [{in_words(key)}]({key}.md){usual}"
    return f"a section: [its settings](sections.md#{key})" if key in SECTIONS else cell(description)


def _added(registry: Registry) -> list[Component]:
    """Sections that plugins add."""
    return registry.of_kind("recipe_section")


def sections_page(registry: Registry) -> str:
    """The sections of a recipe with their settings."""
    sections = {**SECTIONS, **{each.name: settings_class(each) for each in _added(registry)}}
    body = [f"## {name}\n\n{said(model)}\n\n{settings_table(model)}" for name, model in sections.items()]
    return "\n\n".join(["# Sections of a recipe", *body]) + "\n"


def part_page(kind: str, registry: Registry) -> str:
    """All parts of one kind with their settings."""
    usual = f" Where a recipe has no `use` line for it: `{DEFAULTS[kind]}`." if kind in DEFAULTS else ""
    texts = [
        f"# {in_words(kind).capitalize()}\n",
        f"What there is, with its settings.{usual} To write one: [{in_words(kind)}](../kinds/{kind}.md).\n",
        f"```yaml\n{WRITTEN[kind]}\n```\n",
    ]
    return "\n".join([*texts, *map(_component_text, registry.of_kind(kind))])


def _component_text(component: Component) -> str:
    """A part, what it needs and brings, and its settings."""
    texts = [f"## `{component.qualified}` {{#{anchor_of(component)}}}", component.summary]
    texts += [f"It needs {', '.join(f'`{name}`' for name in component.requires)}."] if component.requires else []
    texts += [f"It brings the {in_words(kind)} `{use}`." for kind, use in component.brings.items()]
    if (ROOT / "plugins" / component.plugin / "README.md").exists():
        texts.append(f"More: [{component.plugin}](../plugins/{component.plugin}.md).")
    return "\n\n".join([*texts, settings_table(settings_class(component))]) + "\n"


def anchor_of(component: Component) -> str:
    """Of its title on the page of its kind."""
    return f"{component.plugin}-{component.name}"


def settings_table(model: type[BaseModel]) -> str:
    """Every setting of a class, as `cbr show` tells it."""
    rows = []
    for each in describe(model):
        default = each.default if each.default in ("required", "computed") else f"`{each.default}`"
        words = (f"`{each.path}`", each.type, default, each.bounds, each.description)
        rows.append(f"| {' | '.join(map(cell, words))} |")
    head = ["| setting | type | default | bounds | meaning |", "|---|---|---|---|---|"]
    table = "\n".join([*head, *rows])
    return f'<div class="cbr-settings" markdown>\n\n{table}\n\n</div>' if rows else "It has no settings."


def recipe_anchors() -> dict[str, str]:
    """Every recipe of ours -> the anchor of its title."""
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("recipes/**/*.yaml") if path.stem != "paper"]
    files.sort(key=lambda file: (file.count("/"), file))
    return {
        file: re.sub(r"[^a-z0-9]+", "-", file.removeprefix("recipes/").removesuffix(".yaml")) for file in files
    }


def recipes_page() -> str:
    """Every recipe of ours, whole."""
    texts = ["# Recipes that come with cbr\n\nEach is found in any folder by the name that stands here.\n"]
    for file, anchor in recipe_anchors().items():
        text = (ROOT / file).read_text(encoding="utf-8")
        texts.append(f"## `{file}` {{#{anchor}}}\n\n```yaml\n{text}```\n")
    return "\n".join(texts)


def names_page(kind_of: dict[str, str]) -> str:
    """Everything in `cbrcore.__all__`, by what it is about; `kind_of`: what stands on the page of a kind."""
    head = "# Public names of Python\n\nAll are imported from `cbrcore`. Whatever else the core has may change.\n"
    texts = [head, "## Runs\n", _described(DOOR, cbrcore._DOOR, {})]
    for module, names in cbrcore._WHERE.items():
        texts += [f"## {MODULES.get(module, module)}\n", _described(f"cbrcore.{module}", names, kind_of)]
    return "\n".join(texts)


def _described(module: str, names: tuple[str, ...], kind_of: dict[str, str]) -> str:
    texts = []
    for name in sorted(names, key=str.lower):
        there = f"### [`{name}`](../kinds/{kind_of.get(name)}.md#{module}.{name})\n"
        texts.append(there if name in kind_of else f"::: {module}.{name}\n")
    return "\n".join(texts)
