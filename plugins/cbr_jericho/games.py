"""``cbr games``: which story files are there, and how to get them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cbr_jericho.stories import DEFAULT_URL, AddReport, add_stories, fetch_stories, paper_inventory
from cbrcore import GameError, cache_dir
from cbrcore.console import AsJson, echo, print_json, say
from cbrcore.errors import printable
from cbrcore.tables import aligned

MIB = 1 << 20

games_app = typer.Typer(
    no_args_is_help=True,
    help="List, add and download the story files of the Jericho games. They are third-party works.",
)


@games_app.command("list")
def list_games(*, as_json: AsJson = False) -> None:
    """List the paper's 33 games: present, wrong (a file of that name with other content) or missing."""
    games = paper_inventory()
    if as_json:
        print_json([{**asdict(game), "path": game.path and str(game.path)} for game in games])
        return
    rows = [(game.name, game.status, str(game.path or "-"), game.problem) for game in games]
    echo(aligned([("game", "status", "path", "problem"), *rows]))
    present = sum(game.status == "present" for game in games)
    say(f"{present} of {len(games)} games are here. To get more: cbr games add PATH, or cbr games fetch")


@games_app.command()
def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Story files, folders or zip archives.")],
) -> None:
    """Check story files and copy those that Jericho supports into your games folder."""
    _tell(add_stories(paths))


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
    url = url or DEFAULT_URL
    say(f"downloading {url} (third-party games) ...")
    with _Progress() as shown:
        step = MIB if shown.terminal else 16 * MIB

        def progress(done: int, total: int | None) -> None:
            so_far = done if done == total else done - done % step
            shown.line(f"{so_far / MIB:.1f} MiB" + (f" of {total / MIB:.1f}" if total else ""))

        report = fetch_stories(url, sha256=sha256, progress=progress)
    _tell(report)


@games_app.command()
def warm(
    game: Annotated[str, typer.Argument(metavar="GAME", help="A game, e.g. zork1.")],
    *,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Only so many commands of it; an agent's episode has 100.")
    ] = None,
) -> None:
    """Fill the cache of valid actions along a game's walkthrough, and see how much of it they cover."""
    from cbr_jericho.warm import warm_cache

    with _Progress() as shown:

        def progress(done: int, total: int) -> None:
            step = 1 if shown.terminal else max(1, total // 10)
            so_far = done if done == total else done - done % step
            shown.line(f"searching for valid actions (states): {so_far}/{total}")

        report = warm_cache(game, cache_dir(), steps=steps, progress=progress)
    echo(
        f"{report.game}: {report.states} states, {report.searched} of them new, in {report.seconds:.1f} s;"
        f" valid actions cover {report.covered} of {report.rewarded} rewards"
    )


@games_app.command()
def tune(
    *,
    source: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Jericho's source (archive or folder), else pip gets it."),
    ] = None,
) -> None:
    """Build a faster interpreter, from Jericho's own source, for this machine; needs gcc and make.

    It is built twice: the first build counts where the time goes while it plays, the second is laid out by that.
    It is kept only if it answers as the installed one does; runs then use it (environment.interpreter: tuned).
    """
    from cbr_jericho.interpreter import tuned_path
    from cbr_jericho.tune import tune as build

    compared = build(cache_dir(), say, source=source)
    rows = [
        (each.story, f"{each.installed_s:.2f}", f"{each.tuned_s:.2f}", f"{each.ratio:.2f}") for each in compared
    ]
    echo(aligned([("game", "seconds, installed", "tuned", "times as fast"), *rows]))
    say(f"kept as {tuned_path()}")


def _tell(report: AddReport) -> None:
    """One line per story on stdout; GameError if something was refused."""
    for what, stories in (("added", report.added), ("present", report.present)):
        for story in stories:
            echo("\t".join(map(printable, (what, story.name, str(story.path)))))
    if report.others:
        say(f"passed over {report.others} files that are no stories, or none that Jericho knows")
    if report.refused:
        raise GameError("\n".join(report.refused))


class _Progress:
    """A line on stderr that changes: in place on a terminal, elsewhere one below the other."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self._shown = ""

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.terminal and self._shown:
            say("")

    def line(self, text: str) -> None:
        """Show it, unless it is what is shown."""
        if text != self._shown:
            if self.terminal:
                typer.echo("\r", err=True, nl=False)
            say(f"{text} " if self.terminal else text, nl=not self.terminal)
            self._shown = text
