"""``cbr games``: which story files are there, and how to get them.

The work is done by the plugin cbr_jericho. It is imported by name when a command runs, so that ``cbr --help``
stays light, and the core goes on without it.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cbrcore.console import AsJson, say
from cbrcore.errors import GameError, PluginError

PLUGIN = "cbr_jericho"
MIB = 1 << 20

games_app = typer.Typer(
    no_args_is_help=True,
    help="List, add and download the story files of the Jericho games. They are third-party works.",
)


@games_app.command("list")
def list_games(*, as_json: AsJson = False) -> None:
    """List the paper's 33 games: present, wrong (a file of that name with other content) or missing."""
    from cbrcore.console import aligned

    games = _plugin("stories").paper_inventory()
    if as_json:
        typer.echo(json.dumps([asdict(game) for game in games], indent=2, default=str))
        return
    rows = [(game.name, game.status, str(game.path or "-"), game.problem) for game in games]
    typer.echo(aligned([("game", "status", "path", "problem"), *rows]))
    present = sum(game.status == "present" for game in games)
    say(f"{present} of {len(games)} games are here. To get more: cbr games add PATH, or cbr games fetch")


@games_app.command()
def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Story files, folders or zip archives.")],
) -> None:
    """Check story files and copy those that Jericho supports into your games folder."""
    _report(_plugin("stories").add_stories(paths))


@games_app.command()
def fetch(
    *,
    url: Annotated[str | None, typer.Option(envvar="CBR_GAMES_URL", help="A zip archive of story files.")] = None,
    sha256: Annotated[str | None, typer.Option(help="What the archive's SHA-256 must be.")] = None,
) -> None:
    """Download an archive of story files and add those that Jericho supports.

    Without --url: the archive that Jericho's documentation names. The games in it are third-party works; see to
    it that you may use them.
    """
    stories = _plugin("stories")
    url = url or stories.DEFAULT_URL
    say(f"downloading {url} (third-party games) ...")
    progress = _Progress()
    try:
        report = stories.fetch_stories(url, sha256=sha256, progress=progress)
    finally:
        progress.close()
    _report(report)


@games_app.command()
def warm(
    game: Annotated[str, typer.Argument(metavar="GAME", help="A game, e.g. zork1.")],
    *,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Only so many commands of it; an agent's episode has 100.")
    ] = None,
) -> None:
    """Fill the cache of valid actions along a game's walkthrough, and see how much of it they cover."""
    from cbrcore.runs.assemble import cache_dir

    progress = _Counted("searching for valid actions (states)")
    try:
        report = _plugin("warm").warm_cache(game, cache_dir(), steps=steps, progress=progress)
    finally:
        progress.close()
    typer.echo(
        f"{report.game}: {report.states} states, {report.searched} of them new, in {report.seconds:.1f} s;"
        f" valid actions cover {report.covered} of {report.rewarded} rewards"
    )


def _plugin(module: str) -> Any:
    """A module of the plugin; PluginError if it is not installed."""
    try:
        return importlib.import_module(f"{PLUGIN}.{module}")
    except ModuleNotFoundError as error:
        if error.name != PLUGIN:
            raise
        raise PluginError(
            f"`cbr games` needs the plugin {PLUGIN}, which is not installed", hint="pip install cbr-textrl"
        ) from error


def _report(report: Any) -> None:
    """One line per story on stdout; GameError if something was refused."""
    for what, stories in (("added", report.added), ("present", report.present)):
        for story in stories:
            typer.echo(f"{what}\t{story.name}\t{story.path}")
    if report.others:
        say(f"passed over {report.others} files that are no stories, or none that Jericho knows")
    if report.refused:
        raise GameError("\n".join(report.refused))


class _Progress:
    """Shows a download on stderr: each MiB on a terminal, every 16 MiB as a line elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._step = MIB if self._terminal else 16 * MIB
        self._shown = -1

    def __call__(self, done: int, total: int | None) -> None:
        if done // self._step == self._shown and done != total:
            return
        self._shown = done // self._step
        line = f"{done / MIB:.1f} MiB" + (f" of {total / MIB:.1f}" if total else "")
        typer.echo(f"\r{line} " if self._terminal else line, err=True, nl=not self._terminal)

    def close(self) -> None:
        """End the line that a terminal shows."""
        if self._terminal and self._shown >= 0:
            say("")


class _Counted:
    """Shows how far a count has come on stderr: each change on a terminal, every tenth part elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._terminal = sys.stderr.isatty()
        self._shown = 0

    def __call__(self, done: int, total: int) -> None:
        if not self._terminal and done * 10 // total == self._shown:
            return
        self._shown = done * 10 // total
        line = f"{self._title}: {done}/{total}"
        typer.echo(f"\r{line} " if self._terminal else line, err=True, nl=not self._terminal)

    def close(self) -> None:
        """End the line that a terminal shows."""
        if self._terminal:
            say("")
