"""The game itself: Inform 7 story files in jericho's Z-machine, which runs no more often than it must.

A command costs 1.5 to 2 ms in the interpreter, nearly all of it in the game's own parser. Where we know the
answer, the command is only noted. When the interpreter is needed, it first executes what it has missed.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cbr_twc.commands import carried_out, without_articles, without_trace
from cbr_twc.files import check_content, check_readable
from cbrcore.errors import GameError
from cbrcore.types import Ending

SEED = 1234
"""TWC games draw nothing at random; jericho would take the time of day if it were given no seed."""

MOST_READ = 64
"""Stories kept in memory, of about half a MiB each."""

_BANNER_END = "$$$$$$$"
_SCORED = re.compile(r"Your score has just gone up by|Your score changed by")


@dataclass(frozen=True)
class Answer:
    """What the game said and did.

    Attributes:
        text: the answer as a player sees it.
        carried_out: the commands that took effect, by the game's own trace.
        scored: whether the score changed.
        ending: whether and how the game is over.
    """

    text: str
    carried_out: tuple[str, ...]
    scored: bool
    ending: Ending | None

    @classmethod
    def of(cls, printed: str) -> Answer:
        """Read what the interpreter printed."""
        text = without_trace(printed)
        ending = Ending.WON if "*** The End ***" in text else None
        ending = Ending.LOST if "*** You lost! ***" in text else ending
        return cls(text, tuple(carried_out(printed)), _SCORED.search(text) is not None, ending)

    def carries_out(self, command: str) -> bool:
        """Whether the game did just what the command says."""
        return without_articles(command) in self.carried_out


class Engine:
    """One story in the Z-machine, which sees a copy of its file under a name of ours: long, odd or vanished paths,
    and what is damaged, never reach native code. (It takes stories called tw-... for TextWorld's.)

    Args:
        name: the file's.
        content: a whole story; see `check_content`.

    Attributes:
        opening: what the game prints first, without the banner.
        sent: how many commands of `history` it has executed.
    """

    def __init__(self, name: str, content: bytes) -> None:
        import jericho

        with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="cbr-story-") as folder:
            warnings.simplefilter("ignore", jericho.UnsupportedGameWarning)
            copy = Path(folder) / ("tw-story.z8" if name.startswith("tw-") else "story.z8")
            copy.write_bytes(content)
            self._frotz = jericho.FrotzEnv(str(copy), SEED)
            opening: str = self._frotz.reset()[0]  # it reads the file again
        self.opening = without_trace(opening.split(_BANNER_END)[-1])
        self._frotz.step("tw-trace-actions")  # takes no turn
        self._start = self._frotz.get_state()
        self.history: Sequence[str] = ()
        self.sent = 0

    def catch_up(self, history: Sequence[str]) -> None:
        """Execute what is left of an episode's commands; `history` is one list per episode."""
        if self.history is not history:
            self._frotz.set_state(self._start)
            self.history, self.sent = history, 0
        while self.sent < len(history):
            self._frotz.step(history[self.sent])
            self.sent += 1

    def send(self, command: str) -> Answer:
        """Execute the command that follows; the caller adds it to the history."""
        self.sent += 1
        return Answer.of(self._frotz.step(command)[0])

    def peek(self, command: str) -> str:
        """What the game would answer; nothing changes."""
        state = self._frotz.get_state()
        text = without_trace(self._frotz.step(command)[0])
        self._frotz.set_state(state)
        return text

    def close(self) -> None:
        self._frotz.close()


class Engines:
    """The engines in use, at most `limit` at a time; the one that was used longest ago is closed."""

    def __init__(self, limit: int = 8) -> None:
        self.limit = limit
        self._open: OrderedDict[Path, Engine] = OrderedDict()
        self._read: dict[Path, bytes] = {}

    def __repr__(self) -> str:
        return f"Engines({len(self._open)} open, at most {self.limit})"

    def __len__(self) -> int:
        return len(self._open)

    def get(self, story: Path) -> Engine:
        """The engine that plays `story`, opened if need be."""
        if story not in self._open:
            while len(self._open) >= self.limit:
                self._open.popitem(last=False)[1].close()
            self._open[story] = Engine(story.name, self._content(story))
        self._open.move_to_end(story)
        return self._open[story]

    def _content(self, story: Path) -> bytes:
        """Of the file as it was first read, checked; of `MOST_READ` files.

        Raises:
            GameError: it cannot be read, or is no whole story any more.
        """
        if story not in self._read:
            check_readable(story)
            content = story.read_bytes()
            check_content(story, content)
            if len(self._read) >= MOST_READ:
                return content
            self._read[story] = content
        return self._read[story]

    def close(self) -> None:
        """Close all."""
        while self._open:
            self._open.popitem()[1].close()


class Interpreter:
    """One game's answers in the running episode."""

    def __init__(self, story: Callable[[], Path], engines: Engines) -> None:
        self._story = story
        self._engines = engines
        self._history: list[str] = []

    def restart(self) -> None:
        """Start a new episode."""
        self._history = []

    def opening(self) -> str:
        """What the game prints first, without the banner."""
        return self._engine().opening

    def note(self, command: str) -> None:
        """The next command, whose answer is known."""
        self._history.append(command)

    def run(self, command: str) -> Answer:
        """Execute the next command."""
        engine = self._engine()
        engine.catch_up(self._history)
        self._history.append(command)
        answer = engine.send(command)
        if "*** Run-time problem" in answer.text:
            raise GameError(
                f"{self._story()} is damaged: to {command!r} it answers {answer.text!r}",
                hint="Delete it to have it compiled again from its .json, or download it again.",
            )
        return answer

    def peek(self, command: str) -> str:
        """What the game would answer to `command` now; nothing changes."""
        engine = self._engine()
        engine.catch_up(self._history)
        return engine.peek(command)

    def _engine(self) -> Engine:
        return self._engines.get(self._story())
