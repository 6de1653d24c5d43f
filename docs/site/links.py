"""Links between files of the repository, and what they are on the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:|#|/")


def mended(text: str, source: str, page: str) -> str:
    """The text of `source` (a path in the repository) as the text of `page` (a path in docs/)."""

    def replaced(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        if ELSEWHERE.match(target):
            return found[0]
        file, _, anchor = target.partition("#")
        there = page_of(posixpath.normpath(posixpath.join(posixpath.dirname(source), file)))
        if there is None:
            return found[0] if mark else words
        way = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"{mark}[{words}]({way}{'#' if anchor else ''}{anchor})"

    return "".join(LINK.sub(replaced, piece) if prose else piece for prose, piece in pieces(text))


def page_of(file: str) -> str | None:
    """The page (in docs/) of a file or folder of the repository; None if it has none."""
    if plugin := re.fullmatch(r"plugins/(\w+)(/README\.md)?", file):
        return f"plugins/{plugin[1]}.md"
    if file.startswith("recipes"):
        return "reference/recipes.md"
    if file == "README.md":
        return "index.md"
    return file.removeprefix("docs/") if file.startswith("docs/") else None


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces: (whether it is prose, piece); the others are blocks of code."""
    at = 0
    for fence in FENCE.finditer(text):
        yield True, text[at : fence.start()]
        yield False, fence[0]
        at = fence.end()
    yield True, text[at:]
