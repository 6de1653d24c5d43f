"""``cbr doctor``, ``list-plugins``, ``show`` and ``check``: what is installed, and whether a recipe is right."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cbrcore.cli.options import (
    AsJson,
    PluginFiles,
    RecipePath,
    Sets,
    checked_recipe,
    plugins_of,
    print_json,
    print_table,
    say,
)


def doctor(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Look only; leave out the self-test.")] = False,
    as_json: AsJson = False,
) -> None:
    """See what is installed and found, test it (two minutes at most), and tell how to mend what is wrong."""
    from cbrcore.doctor import examine

    say("looking ..." if quick else "looking, and testing (two minutes at most) ...")
    found = examine(quick=quick)
    if as_json:
        print_json(found.data())
    else:
        typer.echo("\n".join(found.lines()))
    if not found.ok:
        raise typer.Exit(1)


def list_plugins(
    *,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Describe every component.")] = False,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """List the plugins: what they offer, where they come from, and what is wrong with them."""
    from cbrcore import listing
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=plugin or ())
    if as_json:
        print_json(listing.plugins_data(report))
        return
    tables = [listing.plugin_rows(report), *([listing.component_rows(report)] if verbose else [])]
    for rows in tables:
        print_table(rows)
        if not sys.stdout.isatty():
            typer.echo()


def show(
    name: Annotated[str, typer.Argument(metavar="PLUGIN/NAME", help="A component, as in a recipe's 'use'.")],
    *,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Show a component's settings: type, default, bounds and meaning."""
    from cbrcore import listing

    report = plugins_of(plugin or ())
    components = report.registry.named(name)
    if as_json:
        print_json([listing.component_data(component, report) for component in components])
    else:
        typer.echo("\n\n".join(listing.component_text(component, report) for component in components))


def check(recipe: RecipePath, *, set_: Sets = None, plugin: PluginFiles = None) -> None:
    """Check a recipe completely, without building anything."""
    from cbrcore import listing

    checked, _ = checked_recipe(recipe, set_ or (), plugin or ())
    typer.echo(listing.recipe_text(checked))
