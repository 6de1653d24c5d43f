"""``cbr bench``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cbrcore.console import AsJson, echo, print_json, say
from cbrcore.errors import CbrError
from cbrcore.tables import markdown


def bench(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PATTERN", help="Only measures whose name fits; may be repeated."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the work; rough figures.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List the measures; do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how fast it is on this machine. Each figure stands beside a named alternative of the same
    run. Leave the machine alone meanwhile."""
    from cbr_bench.figures import COLUMNS, machine
    from cbr_bench.measures import Setting, chosen, said_of

    measures = chosen(only or [])
    if show:
        rows = [[name, each.about, f"{each.minutes:g} min"] for name, each in measures.items()]
        echo(markdown([["measure", "of what", "takes about"], *rows]))
        return
    about, figures, failed = machine(), [], []
    for name, measure in measures.items():
        if missing := measure.missing:
            failed.append((name, said_of(missing)))
            say(f"{name}: left out, {said_of(missing)}")
            continue
        say(f"{name}: {measure.about} (about {measure.minutes / (10 if quick else 1):g} min) ...")
        with tempfile.TemporaryDirectory(prefix="cbr-bench-") as folder:
            try:
                for figure in measure.run(Setting(Path(folder), quick)):
                    say("  " + "  ".join(figure.row()))
                    figures.append((name, figure))
            except CbrError as error:
                failed.append((name, str(error)))
                say(f"{name}: {error}")
    if as_json:
        measured = [{"measure": name, **figure.data()} for name, figure in figures]
        print_json({"machine": about, "figures": measured, "failed": dict(failed)})
    else:
        echo(", ".join(f"{key} {value}" for key, value in about.items()))
        echo()
        echo(markdown([list(COLUMNS), *(figure.row() for _, figure in figures)]))
    if failed:
        raise typer.Exit(1)
