"""``cbr recipes``: which recipes there are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from textwrap import shorten
from typing import Annotated, Any

import typer

from cbr_find.facts import Facts, facts_of
from cbr_find.shipped import RecipeFile, find_recipe, recipe_files
from cbrcore.console import AsJson, PluginFiles, completing, echo, plugins_of, print_json, say
from cbrcore.tables import print_table

Listed = tuple[RecipeFile, Facts]
HERE = "in this folder"
WIDTH = 90
"""Characters of a sentence in the table; all of it is told of one recipe, and in JSON."""


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="All about this one: a path, or a name as in 'twc'.",
            autocompletion=completing("recipes"),
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """List the recipes that came with the package, those in recipes/ and in this folder."""
    registry = plugins_of(plugin or (), quiet=True).registry
    found = recipe_files() if name is None else [find_recipe(name)]
    listed = [(recipe, facts_of(recipe, registry)) for recipe in found]
    if as_json:
        print_json([as_data(*each) for each in listed])
    elif name is not None:
        echo(described(*listed[0]))
    else:
        _print_groups(listed)
        say("all about one: cbr recipes NAME   one of your own: cbr new-recipe NAME --from RECIPE")


def _print_groups(listed: Sequence[Listed]) -> None:
    for folder, group in groupby(listed, key=lambda each: each[0].folder):
        rows = [(HERE if folder == "." else folder, "what it is", "cost", "needs")]
        print_table([*rows, *(_row(*each) for each in group)])
        if not sys.stdout.isatty():
            echo()


def _row(recipe: RecipeFile, facts: Facts) -> tuple[str, ...]:
    if facts.fault:
        return recipe.path, facts.fault, "", ""
    return recipe.path, shorten(facts.what, WIDTH, placeholder=" ..."), facts.cost, facts.needs or "nothing"


def described(recipe: RecipeFile, facts: Facts) -> str:
    """All that the file says of itself, and what to type."""
    if facts.fault:
        return f"{recipe.path} {facts.fault}"
    rows = [("cost", facts.cost), ("needs", facts.needs or "nothing"), ("file", str(recipe.file))]
    told = [f"{name:7}{value}" for name, value in rows]
    typed = [f"{name:7}{command}" for name, command in commands(recipe, facts).items()]
    return "\n".join([recipe.path, *(f"  {line}".rstrip() for line in facts.comment), *told, *typed])


def commands(recipe: RecipeFile, facts: Facts) -> dict[str, str]:
    """What to type with it."""
    many = {"all": f"cbr sweep {recipe.path}"} if facts.runs > 1 else {}
    return many | {"run": f"cbr run {recipe.path}", "copy": f"cbr new-recipe NAME --from {recipe.path}"}


def as_data(recipe: RecipeFile, facts: Facts) -> dict[str, Any]:
    """A recipe for programs."""
    return {
        "path": recipe.path,
        "file": str(recipe.file),
        "own": recipe.own,
        "what": facts.what,
        "cost": facts.cost,
        "runs": facts.runs,
        "needs": facts.needs,
        "fault": facts.fault,
        "comment": list(facts.comment),
    }
