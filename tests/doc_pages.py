"""The pages that people read, their blocks of code, and the commands in these, for tests."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
"""Every page; one that is added is tested like the others."""
PLUGIN_PAGES = sorted(ROOT.glob("plugins/*/README.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^(?:    )?```.*?^(?:    )?```$", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    """Its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[str]:
    """The bodies of the page's blocks in these languages, in their order."""
    return [body for name, body in BLOCK.findall(page.read_text(encoding="utf-8")) if name in languages]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def joined(block: str) -> str:
    """With continued lines in one."""
    return re.sub(r"\s*\\\n\s*", " ", block)


def commands_in(block: str) -> list[str]:
    """The simple commands of a block: continued lines joined, comments and loops taken off."""
    plain = re.sub(r"(^|\s)#.*$", "", joined(block), flags=re.MULTILINE)
    parts = [part.strip().removeprefix("do ").strip() for part in re.split(r"&&|;|\n", plain)]
    return [part for part in parts if part]


def ours_of(block: str) -> list[str]:
    """The lines that begin with a command of ours, continued ones joined."""
    return [line for line in joined(block).splitlines() if line.startswith("cbr ")]


def file_name(block: str) -> str | None:
    """The file that a block is: its first line is ``# name.py`` (or .yaml). None if it is a program to run."""
    found = re.match(r"# ([\w/]+\.(?:py|yaml))$", block.partition("\n")[0])
    return found and found[1]
