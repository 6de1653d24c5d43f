"""``cbr new-plugin``: a distribution of one's own to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cbrcore.console import echo, say
from cbrcore.registry import KINDS

DEFAULT_KIND = "retain_policy"
"""The kind with the smallest contract."""


def new_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name; also its package and folder.")],
    *,
    kind: Annotated[str, typer.Option(metavar="KIND", help=f"What it offers: {', '.join(KINDS)}.")] = DEFAULT_KIND,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder is made in here.")] = Path("."),
) -> None:
    """Write a plugin of your own to start from: a working part with its tests and a recipe, ready to install."""
    from cbr_new_plugin.writing import in_words, write_plugin

    made = write_plugin(name, kind, out)
    echo("\n".join(str(made.folder / file) for file in made.files))
    article = "an" if kind[0] in "aeiou" else "a"
    say(f"\n{made.component}: {article} {in_words(kind)}. What to type next:")
    steps = [
        f"cd {shlex.quote(str(made.folder))}",
        "pip install -e '.[test]'",
        "cbr list-plugins -v",
        "python -m pytest",
        *(["cbr check recipe.yaml"] if "recipe.yaml" in made.files else []),
        made.try_it,
    ]
    say("\n".join(f"  {step}" for step in steps))
