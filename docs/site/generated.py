"""The pages that are made from the code, and where the things are that pages name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kinds import kind_page, kinds_of_contracts
from reference import anchor_of, keys_page, names_page, part_page, recipe_anchors, recipes_page, sections_page

from cbr_show.describing import WRITTEN
from cbrcore.plugins import load_plugins
from cbrcore.registry import KINDS, Registry

ROOT = Path(__file__).parents[2]


@dataclass
class Pages:
    """Pages and what is found in them.

    Attributes:
        texts: path in docs/ -> Markdown, in the order of the navigation.
        sources: path in docs/ -> path in the repository, where the text is a file.
        names: a part or a recipe -> "path in docs/#anchor".
    """

    texts: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def made_pages() -> Pages:
    """Everything that is made, and the READMEs: the project's is the first page."""
    pages, registry = Pages(), load_plugins().registry
    pages.texts |= {f"kinds/{kind}.md": kind_page(kind) for kind in KINDS}
    _add_reference(pages, registry)
    plugins = {f"plugins/{path.parent.name}.md": path for path in sorted(ROOT.glob("plugins/*/README.md"))}
    for page, path in {"index.md": ROOT / "README.md", **plugins}.items():
        pages.texts[page] = path.read_text(encoding="utf-8")
        pages.sources[page] = path.relative_to(ROOT).as_posix()
    return pages


def _add_reference(pages: Pages, registry: Registry) -> None:
    parts = [kind for kind in KINDS if kind in WRITTEN]
    pages.texts["reference/index.md"] = keys_page(registry)
    pages.texts["reference/sections.md"] = sections_page(registry)
    pages.texts |= {f"reference/{kind}.md": part_page(kind, registry) for kind in parts}
    pages.texts["reference/recipes.md"] = recipes_page()
    pages.texts["reference/python.md"] = names_page(kinds_of_contracts())
    for component in registry:
        if component.kind in parts:
            pages.names[component.qualified] = f"reference/{component.kind}.md#{anchor_of(component)}"
    pages.names |= {file: f"reference/recipes.md#{anchor}" for file, anchor in recipe_anchors().items()}
