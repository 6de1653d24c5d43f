"""``cbr show`` and ``cbr schema``: what a recipe may say, for people and for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cbr_show.describing import shown
from cbr_show.schema import schema_of
from cbrcore.console import AsJson, PluginFiles, completing, echo, plugins_of, print_json, say
from cbrcore.runs.folder import write_atomically


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A component, as in a recipe's 'use', or a section of a recipe.",
            autocompletion=completing("components"),
        ),
    ],
    *,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Show the settings of a component or of a recipe's section: type, default, bounds and meaning."""
    texts, data = shown(name, plugins_of(plugin or ()))
    if as_json:
        print_json(data)
    else:
        echo("\n\n".join(texts))


def schema(
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this file.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Write the JSON Schema of a recipe, for editors that complete and check."""
    found = schema_of(plugins_of(plugin or ()).registry)
    if out is None:
        print_json(found)
    else:
        write_atomically(out, json.dumps(found, indent=2) + "\n")
        say(f"written to {out}")
