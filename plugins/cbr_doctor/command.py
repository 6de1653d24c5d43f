"""``cbr doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from cbrcore.console import AsJson, PluginFiles, echo, print_json, say


def doctor(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Look only; leave out the self-test.")] = False,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """See what is installed and found, test it (two minutes at most), and tell how to mend what is wrong."""
    from cbr_doctor.examine import examine

    say("looking ..." if quick else "looking, and testing (two minutes at most) ...")
    found = examine(quick=quick, files=plugin or ())
    if as_json:
        print_json(found.data())
    else:
        echo("\n".join(found.lines()))
    if not found.ok:
        raise typer.Exit(1)
