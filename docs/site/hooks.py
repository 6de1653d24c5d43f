"""What `mkdocs build` asks of us: pages that are made from the code, links, pictures and formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from content import with_formulas, with_links, with_pictures
from generated import Pages, made_pages
from links import mended
from mkdocs.structure.files import File

DOCS = Path(__file__).parents[1]
_made = Pages()


def on_config(config: Any) -> Any:
    """Make the pages, and give them their places in the navigation."""
    global _made
    _made = made_pages()
    for place in config.nav:
        if isinstance(place, dict) and "Write a plugin" in place:
            place["Write a plugin"] += [page for page in _made.texts if page.startswith("kinds/")]
    for title, folder in (("Reference", "reference/"), ("Plugins", "plugins/")):
        config.nav.append({title: [page for page in _made.texts if page.startswith(folder)]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    for path, text in _made.texts.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Links to files of the repository become links to their pages."""
    source = _made.sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return mended(text, source, page.file.src_uri)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Pictures stand in the page, formulas are MathML, and the names of parts and recipes are links."""
    return with_links(with_formulas(with_pictures(html, page.file.src_uri, DOCS)), page.file.src_uri, _made.names)
