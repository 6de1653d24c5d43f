"""What docstrings and settings say, as Markdown."""

from __future__ import annotations

import inspect

from cbrcore import hookspecs
from cbrcore.registry import HOOK_OF_KIND


def said(thing: object) -> str:
    """A docstring without its indent."""
    return inspect.getdoc(thing) or ""


def hook_says(kind: str) -> str:
    """What the hook of a kind of plugin offers."""
    return one_line(said(getattr(hookspecs, HOOK_OF_KIND[kind]))).replace("``", "`")


def cell(text: str) -> str:
    """As a cell of a table."""
    return one_line(text).replace("|", "\\|").replace("<", "&lt;")


def one_line(text: str) -> str:
    return " ".join(text.split())
