"""Keeps a worker at work on one story: starts it when needed, replaces it when it fails, counts the failures."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from cbr_cache.tally import shared_tally
from cbr_isolate.client import Worker, WorkerDied
from cbr_isolate.faults import Faults
from cbr_isolate.protocol import Message
from cbr_jericho.cache import NAME
from cbr_jericho.config import JerichoConfig
from cbr_jericho.views import Views
from cbrcore.errors import RunFailed

log = logging.getLogger(__name__)

MODULE = "cbr_jericho.worker"
ADVICE = "raise max_faults or step_timeout_s of the environment, or deny the command that does it"


class Supervisor:
    """The worker of one story.

    Args:
        request: opens the story in a new worker.
        label: names the game in messages.
        views: what the run remembers, where the key of valid actions is not exact.

    Attributes:
        counts: engine_errors, searches_given_up, checks_given_up; entries of the cache that were damaged and are
            made anew; remembered answers that were checked, with the actions offered, stale and missing there.
        facts: what the worker says of the story once; loads it.
    """

    def __init__(self, request: Message, label: str, config: JerichoConfig, views: Views | None = None) -> None:
        self.label = label
        self._views = Views() if views is None else views
        self._loads = self._views.loads
        self.config = config
        self._faults = Faults(label, config.max_faults, hint=ADVICE)
        self.counts: Counter[str] = self._faults.counts
        self._request = request
        self._tally = shared_tally(f"{NAME} {request['cache']}")
        self._worker: Worker | None = None
        self._facts: Message | None = None
        self._given_up: set[str] = set()
        self._failed_searches = 0
        self._told = 0

    def __repr__(self) -> str:
        return f"Supervisor({self.label!r}, {self._worker!r})"

    @property
    def facts(self) -> Message:
        """See `Desk.facts`.

        Raises:
            GameError: the story or the tagger cannot be used.
            RunFailed: the worker does not start.
        """
        if self._facts is None:
            self._running()
            assert self._facts is not None
        return self._facts

    def begin(self, effort: str, seed: int | None = None) -> Message:
        """Start a new episode, with a seed of its own unless that is None; the reply about its first state."""
        self._faults.began()
        self._tell({"do": "reset", "effort": effort, "seed": seed})
        return self.receive()

    def send(self, command: str, effort: str, *, known: bool = False, after: Sequence[str] | None = None) -> None:
        """Have a command executed; `receive` gives the reply. Between the two, other workers can be asked.

        Args:
            after: the episode's commands before it, where the engine has not been told; None if it has.
        """
        if after is not None:
            self._faults.began()
            for each in after:
                self._faults.sent(each)
        self._faults.sent(command)
        self._tell({"do": "step", "command": command, "effort": effort, "known": known, "after": after})

    def receive(self) -> Message:
        """The reply about the present state.

        Raises:
            EpisodeLost: the engine failed.
            RunFailed: it did so too often.
        """
        try:
            reply = self._reply()
            if "view" in reply and not self._views.settle(*reply["view"]):  # another player was there first
                self._tell({"do": "look_again", "feedback": reply["feedback"]})
                reply = self._reply()
        except WorkerDied as error:
            raise self._faults.lost(str(error)) from error
        if reply["ending"] == "engine_error":
            raise self._faults.lost("halted at an illegal operation")
        return reply

    def _reply(self) -> Message:
        reply = self._read(self.config.step_timeout_s)
        if "searching" in reply:
            reply = self._await_search(reply)
        if "wrong_entry" in reply:
            self.counts["cache_entries_renewed"] += 1
            self._tally.add(reply["wrong_entry"], "is damaged")
        if "checked" in reply:
            self.counts.update(checked=1, **{f"checked_{what}": count for what, count in reply["checked"].items()})
        return reply

    def _tell(self, request: Message) -> None:
        """A request, with what is remembered since the last one."""
        if self._loads != self._views.loads:
            self.close()
            self._loads = self._views.loads
        worker = self._running()
        worker.send({**request, "views": self._views.since(self._told)})
        self._told = len(self._views)

    def finished(self) -> None:
        """The episode came to a regular end."""
        self._faults.finished()

    def figures(self) -> Message:
        """Counts and seconds of the present worker; see `Desk.figures`. Not between `send` and `receive`."""
        return self._ask({"do": "figures"})

    def gains(self, commands: Sequence[str], *, after: Sequence[str] | None = None) -> list[int]:
        """What each command would add to the score now. Not between `send` and `receive`, of which `after` is."""
        gains: list[int] = self._ask({"do": "gains", "commands": list(commands), "after": after})["gains"]
        return gains

    def close(self) -> None:
        """End the worker; the next request starts another one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(self, request: Message) -> Message:
        """A request that changes nothing.

        Raises:
            RunFailed: the engine fails.
        """
        try:
            self._running().send(request)
            return self._read(self.config.step_timeout_s)
        except WorkerDied as error:
            raise RunFailed(f"{self.label}: the engine {error}") from error

    def _running(self) -> Worker:
        if self._worker is None:
            try:
                request = {**self._request, "given_up": sorted(self._given_up)}
                self._worker = Worker(MODULE, request, in_scratch=True)
                self._told = 0
                self._worker.send({"do": "facts"})
                self._facts = self._read(self.config.step_timeout_s)
            except WorkerDied as error:
                raise RunFailed(f"{self.label}: the worker {error}") from error
        return self._worker

    def _read(self, timeout_s: float) -> Message:
        """The next message of the worker; WorkerDied if there will be none."""
        assert self._worker is not None
        try:
            message = self._worker.receive(timeout_s)
        except BaseException:  # an interrupt as well: the reply would be taken for that of the next request
            self.close()
            raise
        for text in message.pop("log", ()):
            log.warning("%s: %s", self.label, text)
        if "fault" in message:
            self.close()
            raise WorkerDied(message["fault"])
        return message

    def _await_search(self, announcement: Message) -> Message:
        """The reply after a search for valid actions, or without it if it takes too long or kills the worker."""
        try:
            reply = self._read(self.config.valid_timeout_s)
        except WorkerDied as error:
            return self._without_search(announcement, str(error))
        self._failed_searches = 0
        return reply

    def _without_search(self, announcement: Message, reason: str) -> Message:
        """Go on in a new worker from the state before the search; one that was to check what is remembered costs
        nothing."""
        check = announcement["check"]
        self.counts["checks_given_up" if check else "searches_given_up"] += 1
        self._failed_searches += not check
        what = "check of remembered actions" if check else "search for valid actions"
        message = f"{self.label}: a {what} {reason}. Last commands: {self._faults.history}"
        log.warning("%s", message)
        if self._failed_searches >= self.config.max_faults:
            raise RunFailed(
                f"{message}\n  {self._failed_searches} searches in a row were given up",
                hint="raise valid_timeout_s (or max_faults) of the environment",
            )
        self._given_up.add(announcement["searching"])
        self._tell({"do": "resume", "state": announcement["state"], "key": announcement["searching"]})
        return {**self._read(self.config.step_timeout_s), **announcement["reply"]}
