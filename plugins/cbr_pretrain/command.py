"""``cbr pretrain``: a retriever for any number of runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cbrcore.console import Device, PluginFiles, RecipePath, Sets, checked_recipe, echo, overrides_of, say

DEFAULT_COLLECTOR = "{use: cbr_kga2c/scorer, unit: sentence, hidden: 64}"


def pretrain(
    recipe: RecipePath,
    *,
    collector: Annotated[
        str,
        typer.Option(
            metavar="AGENT",
            help="Who collects the experience: a plain agent that learns meanwhile, by name or as a section"
            " ('{use: ..., ...}'), or 'random'.",
        ),
    ] = DEFAULT_COLLECTOR,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where it goes (default: a new folder in runs/)")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the --out folder.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Pretrain a recipe's retriever, for any number of runs: `training: {pretrain: {retriever: DIR}}`."""
    sets = overrides_of(set_, seed=seed, device=device)
    checked, report = checked_recipe(recipe, sets, plugin or ())
    from cbr_pretrain import session
    from cbr_pretrain.session import collector_overrides
    from cbr_pretrain.table import pretraining_table
    from cbrcore.recipe import load_recipe

    agent = None
    if collector != "random":
        overrides = collector_overrides(collector, sets)
        agent = load_recipe(recipe, overrides=overrides, registry=report.registry, starts=True)
    found, folder = session.pretrain(checked, agent, report, out, overwrite=overwrite)
    echo(f"{pretraining_table(found)}\n\nretriever: {folder}")
    say(f"use it: --set {shlex.quote(f'training.pretrain.retriever={folder}')}")
