"""Counts the episodes that an engine ends, and says when there are too many."""

from __future__ import annotations

import logging
from collections import Counter, deque

from cbrcore.errors import RunFailed

log = logging.getLogger(__name__)

REMEMBERED_COMMANDS = 20


class EpisodeLost(Exception):
    """The engine failed and the state of the game is gone."""


class Faults:
    """The failures of one engine.

    Args:
        label: names the game in messages.
        most: so many episodes in a row that are lost stop the run.
        hint: what to do then.

    Attributes:
        counts: engine_errors.
    """

    def __init__(self, label: str, most: int, *, hint: str) -> None:
        self.label = label
        self.counts: Counter[str] = Counter()
        self._most = most
        self._hint = hint
        self._in_a_row = 0
        self._commands: deque[str] = deque(maxlen=REMEMBERED_COMMANDS)

    def __repr__(self) -> str:
        return f"Faults({self.label!r}, {self._in_a_row} of {self._most})"

    @property
    def history(self) -> str:
        """The last commands of the episode."""
        return " | ".join(self._commands) or "none"

    def began(self) -> None:
        """An episode begins."""
        self._commands.clear()

    def sent(self, command: str) -> None:
        self._commands.append(command)

    def finished(self) -> None:
        """The episode came to a regular end."""
        self._in_a_row = 0

    def lost(self, reason: str) -> Exception:
        """Count and log a failure; what to raise: `EpisodeLost`, or `RunFailed` when it is too often."""
        self.counts["engine_errors"] += 1
        self._in_a_row += 1
        message = f"{self.label}: the engine {reason}. Last commands: {self.history}"
        log.error("%s", message)
        if self._in_a_row >= self._most:
            return RunFailed(f"{message}\n  {self._in_a_row} episodes in a row ended so", hint=self._hint)
        return EpisodeLost(reason)
