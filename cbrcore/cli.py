"""The command line. Results go to stdout, messages to stderr; imports stand inside the commands.

Exit codes: 0 done, 1 the run failed, 2 the user's input is wrong, 130 interrupted.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from cbrcore.cases_cli import cases_app
from cbrcore.errors import CbrError, Interrupted, RecipeError
from cbrcore.games_cli import games_app
from cbrcore.newplugin_cli import new_plugin
from cbrcore.play_cli import play

if TYPE_CHECKING:
    from cbrcore.config import Recipe
    from cbrcore.plugins import PluginReport

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a setting; may be repeated.")
]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Load a plugin from a .py file; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"] | None, typer.Option(help="Where the networks run; overrides the recipe.")
]


DEFAULT_LAUNCHER = "cbr_launchers/local"
DEFAULT_COLLECTOR = "{use: cbr_kga2c/kga2c, unit: sentence, hidden: 64}"


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


app.add_typer(games_app, name="games")
app.add_typer(cases_app, name="cases")


def main() -> None:
    """Run the command line; a `CbrError` ends it with a message and its own exit code, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that lacks a character shows '?'
    try:
        app(prog_name="cbr")
    except CbrError as error:
        problems = len(error.problems) if isinstance(error, RecipeError) else 1
        _say(f"error: {f'the recipe has {problems} problems' if problems > 1 else error}")
        if problems > 1:
            _say(str(error))
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


@app.command()
def run(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="The recipe file (YAML).")] = None,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; overrides the recipe.")] = None,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder (default: a new one in runs/)")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the --out folder.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this folder.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Train and evaluate what a recipe describes, and print the table of results."""
    checked, report = _recipe(_recipe_path(recipe, resume), _sets(set_, seed, device), plugin or ())
    from cbrcore import session

    if resume is None:
        results, folder = session.start(checked, report, out, overwrite=overwrite)
    else:
        results, folder = session.resume(checked, report, resume)
    _print_results(results, folder)


@app.command()
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
    sets = _sets(set_, seed, device)
    checked, report = _recipe(recipe, sets, plugin or ())
    from cbrcore import session
    from cbrcore.console import pretraining_table
    from cbrcore.pretraining import collector_overrides
    from cbrcore.recipe import load_recipe

    agent = None
    if collector != "random":
        overrides = [*sets, *collector_overrides(collector)]
        agent = load_recipe(recipe, overrides=overrides, registry=report.registry)
    found, folder = session.pretrain(checked, agent, report, out, overwrite=overwrite)
    typer.echo(f"{pretraining_table(found)}\n\nretriever: {folder}")
    _say(f"use it: --set training.pretrain.retriever={folder}")


@app.command()
def sweep(
    recipe: RecipePath,
    *,
    set_: Sets = None,
    seed: Annotated[int | None, typer.Option(help="The seed of all runs; overrides the recipe.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The sweep's folder (default: runs/<name of the recipe>)")
    ] = None,
    launcher: Annotated[
        str,
        typer.Option(
            metavar="LAUNCHER",
            help="Where the runs execute: a launcher's name, or a section ('{use: cbr_launchers/ray, ...}').",
        ),
    ] = DEFAULT_LAUNCHER,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="So many runs at the same time (default: as there is room for)")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only runs whose id fits, as in '*seed=0'.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs; do nothing.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Execute all runs of a recipe's sweep. Repeat it at will: what is done is skipped, the rest continues."""
    sets = _sets(set_, seed, None)
    checked, report = _recipe(recipe, sets, plugin or ())
    from cbrcore.sweeping import plan, session, work

    session.check_seed(checked, seed)
    prepared = session.prepare(session.Given(recipe, checked, sets, only), out, report.registry)
    if dry_run:
        typer.echo(session.overview(prepared))
        return
    found = session.execute(
        prepared, plan.make_launcher(launcher, report.registry), work.Options(jobs, tuple(plugin or ()))
    )
    typer.echo(f"{found}\nsweep folder: {prepared.folder.path}")


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    *,
    split: Annotated[
        list[str] | None, typer.Option(help="A split to play; may be repeated (default: all)")
    ] = None,
    device: Device = None,
    plugin: PluginFiles = None,
) -> None:
    """Measure a run's latest checkpoint again, with weights and memory frozen."""
    checked, report = _recipe(_recipe_path(None, folder), _sets(None, None, device), plugin or ())
    from cbrcore import session

    _print_results(session.evaluate(checked, report, folder, split or ()), folder)


@app.command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_SWEEP...", help="Folders of runs, or of sweeps (of many runs).")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="The page (default: report.html, in the folder if there is one)"),
    ] = None,
    paper: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The paper's numbers (default: recipes/tables/paper.yaml, if here)"),
    ] = None,
    decisions: Annotated[
        bool, typer.Option(help="Open a run or two, and let them play, to show single decisions.")
    ] = True,
    plugin: PluginFiles = None,
) -> None:
    """Write a page about runs: tables beside the paper's numbers, statistics over seeds, figures."""
    from cbrcore.report.make import write_report

    written = write_report(folders, _plugins(plugin or ()), out=out, paper=paper, decisions=decisions)
    for note in written.notes:
        _say(f"note: {note}")
    typer.echo(f"{written.runs} runs: {written.page}\nits tables: {written.markdown}, {written.tables}")


app.command()(play)


@app.command()
def doctor(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Look only; leave out the self-test.")] = False,
    as_json: AsJson = False,
) -> None:
    """See what is installed and found, test it (two minutes at most), and tell how to mend what is wrong."""
    from cbrcore.doctor import examine

    _say("looking ..." if quick else "looking, and testing (two minutes at most) ...")
    found = examine(quick=quick)
    if as_json:
        _print_json(found.data())
    else:
        typer.echo("\n".join(found.lines()))
    if not found.ok:
        raise typer.Exit(1)


@app.command("list-plugins")
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
        _print_json(listing.plugins_data(report))
        return
    tables = [listing.plugin_rows(report), *([listing.component_rows(report)] if verbose else [])]
    for rows in tables:
        _print_rich(listing.rich_table(rows)) if sys.stdout.isatty() else typer.echo(listing.aligned(rows) + "\n")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="PLUGIN/NAME", help="A component, as in a recipe's 'use'.")],
    *,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Show a component's settings: type, default, bounds and meaning."""
    from cbrcore import listing

    report = _plugins(plugin or ())
    components = report.registry.named(name)
    if as_json:
        _print_json([listing.component_data(component, report) for component in components])
    else:
        typer.echo("\n\n".join(listing.component_text(component, report) for component in components))


@app.command()
def check(recipe: RecipePath, *, set_: Sets = None, plugin: PluginFiles = None) -> None:
    """Check a recipe completely, without building anything."""
    from cbrcore import listing

    checked, _ = _recipe(recipe, set_ or (), plugin or ())
    typer.echo(listing.recipe_text(checked))


app.command("new-plugin")(new_plugin)


def _plugins(files: Sequence[Path]) -> PluginReport:
    """Load the plugins; those that could not be loaded are named on stderr."""
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=files)
    for problem in report.problems():
        _say(f"warning: {problem}")
    return report


def _recipe(path: Path, sets: Sequence[str], plugins: Sequence[Path]) -> tuple[Recipe, PluginReport]:
    """Load plugins and recipe: what every command on a recipe starts with."""
    from cbrcore.recipe import load_recipe

    report = _plugins(plugins)
    return load_recipe(path, overrides=sets, registry=report.registry), report


def _recipe_path(recipe: Path | None, run_folder: Path | None) -> Path:
    """The recipe to read: the one that was named, or the one that a run's folder holds."""
    from cbrcore.records import stored_recipe

    if run_folder is not None:
        stored = stored_recipe(run_folder)
        return recipe or stored
    if recipe is None:
        raise CbrError(
            "name a RECIPE to run, or a run to continue", hint="cbr run RECIPE, or cbr run --resume DIR"
        )
    return recipe


def _sets(sets: Sequence[str] | None, seed: int | None, device: str | None) -> list[str]:
    """All overrides, in the form of --set."""
    options = {"seed": seed, "run.device": device}
    return [*(sets or ()), *(f"{path}={value}" for path, value in options.items() if value is not None)]


def _print_results(results: dict[str, Any], folder: Path) -> None:
    from cbrcore.console import results_table

    typer.echo(results_table(results))
    typer.echo(f"\nrun folder: {folder}")


def _say(message: str) -> None:
    typer.echo(message, err=True)


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


def _print_rich(table: Any) -> None:
    from rich.console import Console

    Console().print(table)


if __name__ == "__main__":
    main()
