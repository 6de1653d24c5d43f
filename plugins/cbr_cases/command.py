"""``cbr cases``: look into the case memory of a run, and what to do with its cases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from cbr_open.door import Run
from cbrcore import closest
from cbrcore.console import AsJson, PluginFiles, RunPath, echo, plugins_of, print_json, say
from cbrcore.errors import CbrError, printable
from cbrcore.tables import print_table

if TYPE_CHECKING:
    from cbr_cases.listing import CaseRow, EffectRow, Listed, SequenceRow


class _ListByDefault(TyperGroup):
    """``cbr cases RUN`` is ``cbr cases list RUN``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A first word that is no command is a run, unless it looks like a command and is no folder."""
        known = self.list_commands(ctx)
        a_run = args[0] not in known and (Path(args[0]).exists() or closest(args[0], known) is None)
        return super().resolve_command(ctx, ["list", *args] if a_run else args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The names of commands, and the runs of the one that need not be named."""
        run, *_ = self.commands["list"].params
        return [*super().shell_complete(ctx, incomplete), *run.shell_complete(ctx, incomplete)]


cases_app = typer.Typer(
    cls=_ListByDefault,
    no_args_is_help=True,
    help="Look into the case memory of a run: `cbr cases RUN [--search TEXT] [--html OUT.html]` lists it. Take its"
    " cases out, or put some in.",
)

Failures = Annotated[
    bool, typer.Option("--failures", help="The cases that failed when they were reused (memory.outcome: both).")
]

LISTED = ("id", "command", "game", "episode", "step", "reward", "rewarded", "reused", "success", "age")
SEQUENCES = ("game", "score", "case", "steps", "commands")
EFFECTS = ("template", "with", "makes admissible", "as", "times", "of")


@cases_app.command("list")
def list_(
    run: RunPath,
    *,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Command, template or game holds this text.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="Cases of this template, e.g. 'put {} on {}'.")] = None,
    game: Annotated[str | None, typer.Option(help="Cases retained from this game.")] = None,
    sort: Annotated[
        Literal["age", "success", "used", "rewarded"] | None,
        typer.Option(help="The highest first (default: as retained)"),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many.")] = None,
    failures: Failures = False,
    effects: Annotated[
        bool,
        typer.Option("--effects", help="Instead, what actions make possible, as the run's reuse policy learned."),
    ] = False,
    sequences: Annotated[
        bool,
        typer.Option(
            "--sequences", help="Instead, sequences of commands: of each score the shortest that leads to it."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write a page to browse them, which needs no network, instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the cases of a run's latest checkpoint: what they do, where they come from, how they fared."""
    from cbr_cases.listing import effects_of, list_cases, select, sequences_of

    if effects or sequences:
        if any((search, template, game, sort, limit, failures, html, effects and sequences)):
            hint = "leave the other options out"
            raise CbrError("--effects and --sequences stand alone, or with --json", hint=hint)
        kept = (SEQUENCES, sequences_of(run)) if sequences else (EFFECTS, effects_of(run))
        return _kept(*kept, as_json=as_json)
    listed = list_cases(run, _memory(failures=failures))
    found = select(listed.rows, search=search, template=template, game=game, sort=sort)[:limit]
    if html is not None:
        _page(run, listed, found, html)
        return
    if as_json:
        print_json([asdict(row) for row in found])
        return
    _table(found)
    more = f"cbr cases show {shlex.quote(str(run))} ID{' --failures' if failures else ''}"
    say(f"{len(found)} of {len(listed.rows)} cases. More about one: {more}")


@cases_app.command()
def show(
    run: RunPath,
    number: Annotated[int, typer.Argument(metavar="ID", help="The number of a case.")],
    *,
    failures: Failures = False,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Show one case: its origin and counts, its situation, and the cases whose keys are most similar."""
    from cbr_cases.listing import show_case, shown

    with Run(run, plugins_of(plugin or ())) as opened:
        found = show_case(opened, number, memory=_memory(failures=failures))
    if as_json:
        print_json(asdict(found))
        return
    for name, value in asdict(found.row).items():
        text = ", ".join(value) if isinstance(value, tuple) else shown(value)
        echo(f"{name:15}{printable(text)}")
    echo("\nsituation")
    echo("\n".join(f"  {line}" for line in found.situation) or "  (it was not stored)")
    echo("\nnearest neighbours by the similarity of keys")
    for similarity, row in found.neighbours:
        echo(printable(f"  {similarity:.2f}  #{row.id} {row.command}  ({row.game}, episode {row.episode})"))
    if not found.neighbours:
        echo("  (there is no other case)")


@cases_app.command("export")
def export(run: RunPath, to: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")]) -> None:
    """Write the cases of a run's latest checkpoint into a folder."""
    from cbr_cases.exchange import export_cases

    count = export_cases(run, to)
    echo(f"{count} cases in {to}")
    say(f"use them: cbr cases import RUN {shlex.quote(str(to))}, or `memory: {{cases: {to}}}` in a recipe")


@cases_app.command("import")
def import_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run; a shared file stays as it is.")],
    source: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `cbr cases export` wrote.")],
    *,
    plugin: PluginFiles = None,
) -> None:
    """Add exported cases to a run's latest checkpoint; their keys are made anew where the encoders are others."""
    from cbr_cases.exchange import import_cases

    with Run(run, plugins_of(plugin or ())) as opened:
        new, total = import_cases(opened, source)
    echo(f"{new} new cases; {run} has {total} now")
    if new:
        say(f"its figures are those of before; measure it again: cbr evaluate {shlex.quote(str(run))}")


def _page(run: Path, listed: Listed, rows: list[CaseRow], to: Path) -> None:
    from cbr_cases.page import write_page

    write_page(run.resolve().name, listed, rows, to)
    echo(f"{len(rows)} of {len(listed.rows)} cases in {to}")


def _kept(header: Sequence[str], rows: Sequence[EffectRow | SequenceRow], *, as_json: bool) -> None:
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        print_table([header, *(row.cells() for row in rows)])


def _memory(*, failures: bool) -> str:
    from cbr_cases.exchange import FAILURES, MEMORY

    return FAILURES if failures else MEMORY


def _table(rows: list[CaseRow]) -> None:
    from cbr_cases.listing import shown

    print_table([LISTED, *(tuple(shown(getattr(row, field)) for field in LISTED) for row in rows)])
