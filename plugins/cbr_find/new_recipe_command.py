"""``cbr new-recipe``: a recipe of one's own to start from."""

from __future__ import annotations

from typing import Annotated

import typer

from cbr_find.copying import copy_recipe
from cbr_find.facts import facts_of
from cbr_find.shipped import QUICKSTART, RecipeFile, find_recipe
from cbrcore.console import PluginFiles, completing, echo, plugins_of, say


def new_recipe(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the recipe: NAME.yaml in this folder.")],
    *,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="RECIPE",
            help="Copy this one: a path, or a name as in 'tables/twc'.",
            autocompletion=completing("recipes"),
        ),
    ] = QUICKSTART,
    plugin: PluginFiles = None,
) -> None:
    """Write a recipe of your own to start from: a copy of one that is here, with its comments."""
    registry, source = plugins_of(plugin or ()).registry, find_recipe(from_)
    made = copy_recipe(source, name, registry)
    echo(f"{made}: a copy of {source.path}")
    facts = facts_of(RecipeFile(str(made), made, own=True), registry)
    typed = [f"cbr check {made}", f"cbr run {made}", *([f"cbr sweep {made}"] if facts.runs > 1 else [])]
    say(f"edit it, then: {'   '.join(typed)}")
    if facts.needs:
        say(f"it needs: {facts.needs}")
