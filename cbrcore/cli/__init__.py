"""The command line. Results go to stdout, messages to stderr; imports stand inside the commands.

Exit codes: 0 done, 1 the run failed, 2 the user's input is wrong, 130 interrupted.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cbrcore.cli import cases, experiments, games, newplugin, parts, play
from cbrcore.cli.options import say
from cbrcore.errors import CbrError, Interrupted, RecipeError


class _Commands(TyperGroup):
    """Turns Ctrl-C into an `Interrupted`, whatever the installed Typer makes of it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

app.command()(experiments.run)
app.command()(experiments.pretrain)
app.command()(experiments.sweep)
app.command()(experiments.evaluate)
app.command()(experiments.report)
app.command()(play.play)
app.add_typer(cases.cases_app, name="cases")
app.add_typer(games.games_app, name="games")
app.command()(parts.doctor)
app.command("list-plugins")(parts.list_plugins)
app.command()(parts.show)
app.command()(parts.check)
app.command("new-plugin")(newplugin.new_plugin)


def main() -> None:
    """Run the command line; a `CbrError` ends it with a message and its own exit code, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that lacks a character shows '?'
    try:
        app(prog_name="cbr")
    except CbrError as error:
        problems = len(error.problems) if isinstance(error, RecipeError) else 1
        say(f"error: {f'the recipe has {problems} problems' if problems > 1 else error}")
        if problems > 1:
            say(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)


def _version(asked: bool) -> None:  # noqa: FBT001 (Typer's own signature)
    if asked:
        from cbrcore import __version__

        typer.echo(f"cbr {__version__}")
        raise typer.Exit


@app.callback()
def cbr(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train and study agents that play text games by case-based reasoning."""
