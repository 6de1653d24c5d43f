"""Keeps a child with an environment at work: starts it, asks it, and replaces it when it is gone."""

from __future__ import annotations

import logging
from typing import Any

from cbr_isolate.client import Worker, WorkerDied
from cbr_isolate.plain import unpacked
from cbr_isolate.protocol import Message
from cbrcore.errors import CbrError, GameError, ModelError, RunFailed

log = logging.getLogger(__name__)

MODULE = "cbr_isolate.child"
ADVICE = "raise run.step_limit if it is only slow; run.isolate=false shows its failure as it is"
FACTS = 60
"""Times the limit of a step: what a question about the games may take; they may be made then."""


class Keeper:
    """The child of one environment.

    Args:
        request: builds the environment; see `child.Desk`.
        step_limit: seconds for a step.

    Attributes:
        child: the how manyth it is.

    Raises:
        GameError: it cannot be built.
        RunFailed: its process ends meanwhile.
    """

    def __init__(self, request: Message, step_limit: float) -> None:
        self.name = str(request["part"]["use"])
        self._request = request
        self._limit = step_limit
        self._worker: Worker | None = None
        self.child = 0
        self._running()

    def __repr__(self) -> str:
        return f"Keeper({self.name!r}, {self._worker!r})"

    def fact(self, name: str, *arguments: Any) -> Any:
        """What the environment says of itself or its games; RunFailed if it does not."""
        try:
            return self.ask(name, *arguments, times=FACTS)
        except WorkerDied as error:
            raise self.unanswered(error, name, *arguments) from error

    def unanswered(self, error: WorkerDied, name: str, *arguments: Any) -> RunFailed:
        """What is said of a question that was not answered."""
        asked = f"{name}({', '.join(f'{argument!r:.100}' for argument in arguments)})"
        return RunFailed(f"{self.name}: asked for {asked} the environment {error}", hint=ADVICE)

    def ask(self, name: str, *arguments: Any, times: float) -> Any:
        """`send` and `receive`, with a new child if there is none or it has ended."""
        self._running()
        self.send(name, *arguments)
        return self.receive(times)

    def send(self, name: str, *arguments: Any) -> None:
        """Ask; that the child is gone is noticed by `receive`."""
        if self._worker is not None:
            self._worker.send({"do": "call", "name": name, "arguments": arguments})

    def receive(self, times: float = 1.0) -> Any:
        """The answer, within so many times the limit of a step.

        Raises:
            WorkerDied: there will be none.
            CbrError: what the environment raised, of the same kind.
        """
        message = self._message(self._limit * times)
        for text in message.pop("log", ()):
            log.warning("%s: %s", self.name, text)
        if "fault" in message:
            self.end()
            raise WorkerDied(f"failed:\n{message['fault'].rstrip()}\n")
        if "raised" in message:
            kinds = {kind.__name__: kind for kind in (GameError, ModelError, RunFailed)}
            raise kinds.get(message["raised"], CbrError)(message["message"], hint=message["hint"])
        return unpacked(message["value"])

    def leave(self, times: float) -> None:
        """Ask the environment to close, if the child lives; raises what `receive` does."""
        if self._worker is not None and self._worker.lives:
            self.ask("close", times=times)

    def end(self) -> None:
        """Whatever the child does."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _message(self, seconds: float) -> Message:
        if self._worker is None:
            raise WorkerDied("was ended")
        try:
            return self._worker.receive(seconds)
        except BaseException:  # an interrupt as well: the answer would be taken for that of the next question
            self.end()
            raise

    def _running(self) -> None:
        if self._worker is not None and not self._worker.lives:
            self.end()
        if self._worker is None:
            try:
                self._worker = Worker(MODULE, self._request)
                self.child += 1
            except WorkerDied as error:
                raise RunFailed(f"{self.name}: the environment's process {error}", hint=ADVICE) from error
