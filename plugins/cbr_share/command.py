"""``cbr export``: a run as one file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cbrcore.console import PluginFiles, RunPath, Sets, echo, say


def export(
    run: RunPath,
    file: Annotated[Path, typer.Argument(metavar="FILE.cbr", help="The file to write.")],
    *,
    set_: Sets = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file and its card.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Write a finished run as one file that others can play, look into and start from, and its model card.

    In it are the recipe, the weights and the cases of the latest checkpoint, metrics, results with their protocol,
    and versions; no game, and no path of this machine. ``--set`` says what such a path of the recipe is elsewhere.
    """
    from cbr_share.packing import export_run
    from cbrcore.recipe import load_recipe
    from cbrcore.runs.folder import stored_recipe
    from cbrcore.runs.resuming import recipe_of

    stored, report = recipe_of(run, (), plugin or ())
    changed = load_recipe(stored_recipe(run), overrides=set_ or (), registry=report.registry)
    done = export_run(run, file, stored, changed, overwrite=overwrite)
    echo(f"{done.file}: {done.file.stat().st_size:,} bytes, sha256 {done.sha256}\nits card: {done.card}")
    for name in done.manifest.plugin_files:
        say(f"note: it needs the plugin file {name}, which is not in it: give it along, it is code")
    _say_use(file)


def push(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.cbr", help="What cbr export wrote; its card is beside it.")
    ],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="USER/NAME on the hub; it is made if need be.")],
    *,
    private: Annotated[bool, typer.Option("--private", help="A new repository is for you alone.")] = False,
) -> None:
    """Upload a shared run and its model card to a hub (extra `hub`; HF_TOKEN, HF_ENDPOINT)."""
    from cbr_share import hub

    echo(f"{file} is in {hub.push(file, repo, private=private)}")
    say(f"get it: cbr pull {repo} {file.name}")


def pull(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="USER/NAME on the hub.")],
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE.cbr]", help="Which one, if there are several.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where it goes.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file and its card.")] = False,
) -> None:
    """Download a shared run and its model card from a hub, and check it (extra `hub`; HF_TOKEN, HF_ENDPOINT)."""
    from cbr_share import hub

    got = hub.pull(repo, file, out, overwrite=overwrite)
    card = got.with_suffix(".md")
    echo(f"{got}\nits card: {card}" if card.is_file() else str(got))
    _say_use(got)


def _say_use(file: Path) -> None:
    typed = shlex.quote(str(file))
    say(f"use it: cbr play {typed}, or cbr run --from {typed}")
