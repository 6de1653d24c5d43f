"""The command line: the core's own commands, and those of plugins. Results go to stdout, messages to stderr.

``cbr --help`` is made of summaries; a command's module is imported when the command runs. Exit codes: 0 done, 1
the run failed, 2 the user's input is wrong, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.markup import escape
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cbrcore.console import echo, say
from cbrcore.errors import (
    CbrError,
    Interrupted,
    PluginError,
    RecipeError,
    RunFailed,
    os_failure,
    printable,
    suggest,
)
from cbrcore.registry import CORE_COMMANDS, Component

if TYPE_CHECKING:
    from cbrcore.plugins import PluginReport

PLUGINS = "cbrcore.plugins"
USAGE: Any = typer.BadParameter.__base__
"""What is wrong with the words of a command; Typer may have a click of its own."""
CORE = {
    name: Component("command", "cbrcore", name, f"cbrcore.commands:{name.replace('-', '_')}", summary=summary)
    for name, summary in CORE_COMMANDS.items()
}


class _Commands(TyperGroup):
    """Commands by name; those of plugins are looked up in the registry.

    A command of a loose file: ``cbr --plugin FILE hello``, or ``cbr hello --plugin FILE``.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*CORE, *sorted(_offered(ctx))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """For the overview: the name and the summary."""
        component = CORE.get(cmd_name) or _offered(ctx).get(cmd_name)
        return TyperCommand(name=cmd_name, help=escape(printable(component.summary)) or " ") if component else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The overview; below it, what is wrong with plugins."""
        super().format_help(ctx, formatter)
        problems = _plugins(ctx).problems()
        if problems:
            formatter.write(
                "\n".join(
                    ["Not all plugins are as they should be:", *(f"  {printable(line)}" for line in problems)]
                )
            )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, its module imported."""
        name, *rest = args
        if ctx.resilient_parsing and name not in CORE and name not in _offered(ctx):
            return None, None, []  # a shell completes; there is nothing to say
        files = _files(ctx)
        if name in CORE:
            command = _command(CORE[name], "")
        else:
            later, others = _take_out_plugins(rest)
            component, origin = _find(ctx, name, [*files, *later])
            command = _command(component, origin)
            if not any(map(_takes_plugins, (command, *getattr(command, "commands", {}).values()))):
                rest = others
        words = [word for file in files for word in ("--plugin", file)]
        if _takes_plugins(command):
            rest = words + rest
        elif rest and (inner := getattr(command, "commands", {}).get(rest[0])) and _takes_plugins(inner):
            rest = [rest[0], *words, *rest[1:]]
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Ctrl-C is an `Interrupted`, whatever Typer makes of it; what the system refuses is a `CbrError`."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        except (OSError, RuntimeError) as error:
            refused = _refused(error)
            if refused is None or os.environ.get("CBR_TRACEBACK"):
                raise
            raise os_failure(refused) from error
        except USAGE as error:
            error.message = printable(error.message, keep="\n")
            raise


def _files(ctx: Any) -> list[str]:
    return [str(file) for file in ctx.params.get("plugin") or ()]


def _take_out_plugins(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the files that ``--plugin`` names, the other words)."""
    files, others, left = list[str](), list[str](), iter(words)
    for word in left:
        if word == "--":
            others += [word, *left]
        elif word == "--plugin":
            files += islice(left, 1)
        elif word.startswith("--plugin="):
            files.append(word.removeprefix("--plugin="))
        else:
            others.append(word)
    return files, others


def _takes_plugins(command: Any) -> bool:
    return any("--plugin" in parameter.opts for parameter in command.params)


def _plugins(ctx: Any) -> PluginReport:
    """All plugins, loaded once for an overview."""
    from cbrcore.plugins import load_plugins

    if PLUGINS not in ctx.meta:
        ctx.meta[PLUGINS] = load_plugins(files=_files(ctx), strict=False)
    report: PluginReport = ctx.meta[PLUGINS]
    return report


def _offered(ctx: Any) -> dict[str, Component]:
    """The commands of all plugins; without those that several plugins claim."""
    registry = _plugins(ctx).registry
    clashes = registry.clashes("command")
    return {c.name: c for c in registry.of_kind("command") if c.name not in clashes}


def _find(ctx: Any, name: str, files: Sequence[str]) -> tuple[Component, str]:
    """The plugin's command of this name, and whose it is.

    Raises:
        CbrError: there is none (the usage is printed too), or several plugins claim the name.
    """
    from cbrcore.plugins import load_plugins

    report = load_plugins(files=files)
    found = [component for component in report.registry.of_kind("command") if component.name == name]
    if len(found) == 1:
        return found[0], report.origin(found[0])
    if found:
        raise CbrError(
            f"the command {name!r} is offered by {' and by '.join(map(report.origin, found))}",
            hint="uninstall one of them, or name the plugins to load: export CBR_LOAD_PLUGINS=...",
        )
    say(ctx.get_usage())
    known = [*CORE, *(component.name for component in report.registry.of_kind("command"))]
    raise CbrError(f"no such command: {name!r}. {suggest(name, known)}", hint=_why_missing(report))


def _why_missing(report: PluginReport) -> str:
    """Which plugins may have offered what was asked for, but are not loaded."""
    reasons = report.problems()
    left_out = [info.name for info in report.plugins if "CBR_LOAD_PLUGINS" in info.cause]
    if left_out:
        reasons.append(f"these plugins are not loaded: {', '.join(left_out)}; unset CBR_LOAD_PLUGINS to have them")
    return "\n  ".join(reasons) or "see them all: cbr --help"


def _command(component: Component, origin: str) -> Any:
    """The click command of a component; what is wrong with an author's module names its distribution.

    Raises:
        PluginError: it cannot be imported, or is neither a function nor a ``typer.Typer``.
    """
    try:
        target = component.load_factory()
    except PluginError as error:
        raise PluginError(f"{error.message} [{origin}]" if origin else error.message, hint=error.hint) from error
    if not callable(target):
        raise PluginError(f"command {component.qualified!r} is neither a function nor a typer.Typer [{origin}]")
    try:
        command = typer.main.get_command(as_typer(target, component.name))
    except Exception as error:
        said = f"command {component.qualified!r} is not as Typer takes it: {error} [{origin}]"
        raise PluginError(said) from error
    command.name = component.name
    if origin:
        command.invoke = _guarded(command.invoke, f"the command {component.name!r} of {origin}")  # type: ignore[method-assign]
    return command


def as_typer(target: Any, name: str | None = None) -> typer.Typer:
    """What a command's factory names, as a Typer: that itself, or one with the function as its only command."""
    if isinstance(target, typer.Typer):
        return target
    single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    single.command(name)(target)
    return single


def _refused(error: BaseException) -> OSError | None:
    """What the operating system refused; of a circle of links Python 3.12 makes another error."""
    found = error.__context__ if isinstance(error, RuntimeError) else error
    return found if isinstance(found, OSError) and (found is error or found.errno == errno.ELOOP) else None


def _guarded(invoke: Callable[..., Any], whose: str) -> Callable[..., Any]:
    """What a plugin's command raises unexpectedly is its failure, told without a traceback."""

    @functools.wraps(invoke)
    def guarded(*arguments: Any) -> Any:
        try:
            return invoke(*arguments)
        except (Exception, SystemExit) as error:
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort) or os.environ.get("CBR_TRACEBACK"):
                raise  # ours, or Typer's own
            if (refused := _refused(error)) and refused.filename is not None:
                raise  # a file of the user's; see `_Commands.invoke`
            said = f"{whose} failed: {type(error).__name__}: {error}"
            raise RunFailed(said, hint="see where: CBR_TRACEBACK=1 cbr ...") from error

    return guarded


def _plain_help() -> None:
    """Help says ``RECIPE``, not ``{RECIPE} <path>``, and of a flag no ``<bool>``, whoever made the command."""
    typed, named = TyperOption.display_type_rich, TyperArgument._usage_display_name

    def usage(self: Any) -> str:
        return named(self) if self.metavar is None else self.metavar if self.required else f"[{self.metavar}]"

    changed: Any = TyperArgument
    changed._usage_display_name = usage
    changed.display_type_rich = lambda self, ctx: None if self.metavar else self.display_type(ctx)
    changed = TyperOption
    changed.display_type_rich = lambda self, ctx: None if self.is_flag else typed(self, ctx)


with contextlib.suppress(AttributeError):  # another Typer has it otherwise, and keeps it
    _plain_help()

app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main() -> None:
    """Run the command line; a `CbrError` ends it with a message and its own exit code, without a traceback."""
    _prepare_streams()
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


class _Lasting(io.FileIO):
    """stdout or stderr, which may end before the command does (``| head -1``): what nobody reads is dropped then.
    Results that a full disk does not take are an error, once."""

    full = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.full or self.fileno() != 1 or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                return len(data)
            self.full = True
            raise CbrError(f"standard output: {error.strerror}", hint="make room where it goes") from error


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(f"{record.levelname.lower()}: {super().format(record)}", keep="\n\t")


def _prepare_streams() -> None:
    """See to it that what is printed, also by libraries that log, neither fails nor does things to a terminal."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed (``2>&-``): a file opened later would get its number, and what is printed
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = _lasting(sys.stdout, 1), _lasting(sys.stderr, 2)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable())


def _lasting(stream: TextIO | None, number: int) -> TextIO:
    """The standard stream, outliving whoever reads it; a console that lacks a character shows '?'."""
    if stream is None or stream in (sys.__stdout__, sys.__stderr__):
        encoding = stream.encoding if stream else "utf-8"
        raw = io.BufferedWriter(_Lasting(number, "wb", closefd=False))
        return io.TextIOWrapper(raw, encoding, errors="replace", line_buffering=True)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def _version(asked: bool) -> None:  # noqa: FBT001 (Typer's own signature)
    if asked:
        from cbrcore import __version__

        echo(f"cbr {__version__}")
        raise typer.Exit


@app.callback()
def cbr(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            "--plugin", metavar="FILE", is_eager=True, help="Load a plugin from a .py file; may be repeated."
        ),
    ] = None,
) -> None:
    """Train and study agents that play text games by case-based reasoning."""


if __name__ == "__main__":
    importlib.import_module("cbrcore.cli").main()  # the module of this name, not the one that runs
