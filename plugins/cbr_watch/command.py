"""``cbr play``: watch a trained agent, or play with its advice."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cbr_open.door import Run
from cbrcore import CbrError, suggest
from cbrcore.console import PluginFiles, RunPath, echo, plugins_of, print_json, say
from cbrcore.errors import printable

if TYPE_CHECKING:
    from cbr_open.explanations import Explanation
    from cbr_watch.watching import Start, Step, Watcher
    from cbrcore import Action, Observation

STYLES = {
    "title": "bold",
    "text": "",
    "plain": "",
    "quiet": "dim",
    "chosen": "cyan",
    "reuse": "bold green",
    "agent": "bold yellow",
    "person": "bold magenta",
    "good": "bold green",
    "bad": "bold red",
}
"""How a terminal shows each kind of line."""

WIDTH = 110
"""Longer lines of the game's text are folded, and at the terminal's width if that is less."""
DIGITS = 9
"""Longer numbers are those of no action, and not read."""


def play(
    run: RunPath,
    *,
    game: Annotated[str | None, typer.Option(help="Play this game (default: the split's games in turn)")] = None,
    split: Annotated[
        str | None, typer.Option(help="The games of this split (default: the first that is evaluated)")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many games are played.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Other draws and other chance (default: the run's)")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the agent's most probable action.")] = False,
    step: Annotated[bool, typer.Option("--step", help="Wait for Enter before every step.")] = False,
    delay: Annotated[float, typer.Option(min=0, max=3600, metavar="SECONDS", help="Wait after every step.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one decision per line, as JSON.")] = False,
    human: Annotated[bool, typer.Option("--human", help="Play yourself, with the agent's advice.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Watch a run's agent play, with each retrieve, reuse, revise decision explained; nothing is learned."""
    if as_json and human:
        raise CbrError("--json prints decisions for a program", hint="leave out either --json or --human")
    from cbr_watch.watching import watch

    watcher: Watcher = JsonWatcher(step=step, delay=delay) if as_json else TextWatcher(step=step, delay=delay)
    if human:
        watcher = Person()
    with Run(run, plugins_of(plugin or ())) as opened:
        watch(opened, watcher, game=game, split=split, episodes=episodes, seed=seed, greedy=greedy)


class JsonWatcher:
    """One decision per line on stdout, and nothing else."""

    def __init__(self, *, step: bool = False, delay: float = 0.0) -> None:
        self._step = step
        self._delay = delay

    def begins(self, start: Start) -> None:
        """A line tells the game."""

    def decided(self, observation: Observation, explained: Explanation) -> Action | None:
        _wait(step=self._step)
        return None

    def stepped(self, step: Step) -> None:
        print_json(step.data(), indent=None)
        sys.stdout.flush()
        time.sleep(self._delay)


class TextWatcher:
    """Everything in words: plain text, or coloured on a terminal."""

    def __init__(self, *, step: bool = False, delay: float = 0.0) -> None:
        self._step = step
        self._delay = delay
        self._show = _Printer()
        self._scored = True

    def begins(self, start: Start) -> None:
        self._scored = start.scored
        self._show("title", f"=== {start.game} (split {start.split!r}, pass {start.number}, seed {start.seed})")
        if start.ending is not None:
            self._show("text", f"no action is admissible; the game is over: {start.ending}")

    def decided(self, observation: Observation, explained: Explanation) -> Action | None:
        self.situation(observation)
        self.decision(explained)
        _wait(step=self._step)
        return None

    def stepped(self, step: Step) -> None:
        from cbr_open.explanations import result_line

        self._show(*result_line(step.result, scored=self._scored))
        if step.result.ending is not None:
            self._show("text", _wrapped(step.result.observation.feedback))
        self._show("text", "")
        time.sleep(self._delay)

    def situation(self, observation: Observation) -> None:
        """What the agent sees and what it may do."""
        from cbr_open.explanations import score_text

        self._show("title", f"step {observation.steps}, {score_text(observation, scored=self._scored)}")
        self._show("text", _wrapped(observation.text))
        actions = [f"{number} {action.text}" for number, action in enumerate(observation.admissible, 1)]
        self._show("quiet", _wrapped(f"admissible: {' | '.join(actions)}"))

    def decision(self, explained: Explanation) -> None:
        """What was decided, and why."""
        from cbr_open.explanations import decision_lines

        for kind, text in decision_lines(explained):
            self._show(kind, text)


class Person(TextWatcher):
    """A person plays; what the agent decided is advice."""

    def decided(self, observation: Observation, explained: Explanation) -> Action | None:
        self.situation(observation)
        self.decision(explained)
        while True:
            say("your command or its number (Enter: as advised; q: stop): ", nl=False)
            try:
                return chosen(_line(), observation.admissible)
            except CbrError as error:
                say(str(error))


def chosen(typed: str, admissible: tuple[Action, ...]) -> Action | None:
    """The admissible action that was typed, by its command or its number; None for an empty line.

    Raises:
        CbrError: there is no such one.
        typer.Exit: "q" was typed.
    """
    text = " ".join(typed.lower().split())
    if not text:
        return None
    if text == "q":
        raise typer.Exit
    by_text = {" ".join(action.text.lower().split()): action for action in admissible}
    if text not in by_text and text.isascii() and text.isdigit():
        if len(text.lstrip("0")) > DIGITS or not 1 <= int(text) <= len(admissible):
            raise CbrError(f"there is no action {text}; type 1 to {len(admissible)}, or a command")
        return admissible[int(text) - 1]
    if text not in by_text:
        raise CbrError(f"{text!r} is not admissible here. {suggest(text, by_text)}")
    return by_text[text]


def _wait(*, step: bool) -> None:
    """For Enter, if steps are taken one by one."""
    if step:
        say("Enter for the next step ", nl=False)
        _line()


def _line() -> str:
    """A line of the input; the end of the input ends the show."""
    line = sys.stdin.readline()
    if not line:
        say("")
        raise typer.Exit
    return line


class _Printer:
    """Lines on stdout: plain where it is no terminal."""

    def __init__(self) -> None:
        self._console = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console()

    def __call__(self, kind: str, text: str) -> None:
        if self._console is None:
            echo(text)
        else:
            style, shown = STYLES.get(kind) or None, printable(text, keep="\n")
            self._console.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)


def _wrapped(text: str) -> str:
    """Paragraphs indented and folded; of several blank lines one stays."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns) - 2
    paragraphs = re.sub(r"\n\s*\n", "\n\n", text.strip()).splitlines()
    lines = [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, width) or [""]]
    return "\n".join(f"  {line}".rstrip() for line in lines)
