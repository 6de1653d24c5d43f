"""Any environment in a process of its own: it may hang, abort, end its process or print what it likes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from cbr_isolate.client import WorkerDied, WorkerEnded
from cbr_isolate.faults import EpisodeLost, Faults
from cbr_isolate.keeper import ADVICE, FACTS, Keeper
from cbr_isolate.plain import packed
from cbrcore.config import Recipe
from cbrcore.errors import CbrError
from cbrcore.interfaces import Build, Places
from cbrcore.registry import Registry
from cbrcore.types import Action, Ending, Observation, StepResult

log = logging.getLogger(__name__)

MAX_FAULTS = 5
"""So many episodes in a row that are lost stop the run."""
RESET, CLOSING = 10, 0.25
"""Times `run.step_limit`: what a reset, and the end, may take."""


def isolated(recipe: Recipe, registry: Registry, build: Build) -> IsolatedEnvironment:
    """The recipe's environment, in a process of its own, with the abilities that it has.

    Raises:
        GameError: it cannot be built.
        RunFailed: its process ends meanwhile.
    """
    request = {
        "files": loose_files(registry),
        "part": recipe.environment.model_dump(mode="json", by_alias=True),
        "device": build.device,
        "seed": build.seed,
        "recipe_dir": str(build.recipe_dir),
        "cache_dir": str(build.cache_dir),
    }
    keeper = Keeper(request, recipe.run.step_limit)
    known = keeper.fact("abilities")
    able = tuple(kind for name, kind in ABILITIES.items() if name in known)
    kind: type[IsolatedEnvironment] = type("Isolated", able, {}) if able else IsolatedEnvironment
    return kind(keeper)


def loose_files(registry: Registry) -> list[str]:
    """The files of plugins that are not installed: another process would not find them by name."""
    installed = {point.name for point in entry_points(group="cbrcore.plugins")}
    names = dict.fromkeys(component.plugin for component in registry if component.plugin not in installed)
    files = (sys.modules[name].__file__ for name in names if name in sys.modules)
    return [str(Path(file).resolve()) for file in files if file]


class IsolatedEnvironment:
    """Stands for an environment that is played in a child process; a `cbrcore.interfaces.ConcurrentEnvironment`.

    A failure of the child (no answer in time, a crash, an exit, an error that is no `CbrError`) ends the running
    episode with `engine_error`, where the last observation was; the next one gets a new child.

    Attributes:
        handicaps: the environment's own.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._faults = Faults(keeper.name, MAX_FAULTS, hint=ADVICE)
        self._known: dict[tuple[str, ...], Any] = {}
        self._now: Observation | None = None
        self._sent: Action | None = None
        self._child = 0
        self.handicaps: Mapping[str, Any] = self._asked("handicaps")

    def __repr__(self) -> str:
        return f"IsolatedEnvironment({self._keeper!r})"

    @property
    def counts(self) -> Mapping[str, int]:
        """How often it failed: `engine_errors`."""
        return self._faults.counts

    def splits(self) -> tuple[str, ...]:
        return tuple(self._fact("splits"))

    def games(self, split: str) -> tuple[str, ...]:
        """See `cbrcore.interfaces.Environment`. RunFailed: the child does not answer."""
        found = tuple(self._fact("games", split))
        self.handicaps = self._fact("handicaps", again=True)  # it may know better by now what it plays
        return found

    def game_info(self, game: str) -> Mapping[str, Any]:
        return dict(self._fact("game_info", game))

    def reset(self, game: str, seed: int) -> Observation:
        """Start `game` anew, in a new child if need be.

        Raises:
            RunFailed: it fails again and again.
        """
        if self._sent is not None:
            self.receive()
        self._faults.label = f"{self._keeper.name}, game {game!r}"
        while True:
            self._faults.began()
            try:
                self._now = self._keeper.ask("reset", game, seed, times=RESET)
                self._child = self._keeper.child
                return self._now
            except WorkerDied as error:
                lost = self._faults.lost(f"(at the start of an episode) {error}")
                if not isinstance(lost, EpisodeLost):
                    raise lost from error

    def step(self, action: Action) -> StepResult:
        self.send(action)
        return self.receive()

    def send(self, action: Action) -> None:
        """The first half of `step`: the child begins to work.

        Raises:
            RuntimeError: no episode is running, or the last action was not received.
        """
        if self._now is None:
            raise RuntimeError(f"no episode of {self._keeper.name} is running: call reset() before step()")
        if self._sent is not None:
            raise RuntimeError("the last action was not received: call receive() before send()")
        self._faults.sent(action.text)
        self._sent = action
        if self._keeper.child == self._child:
            self._keeper.send("step", asdict(action))

    def receive(self) -> StepResult:
        """The second half of `step`.

        Raises:
            RuntimeError: nothing was sent.
            RunFailed: the child fails again and again.
        """
        if self._sent is None or self._now is None:
            raise RuntimeError("nothing was sent: call send() before receive()")
        before, action, self._sent = self._now, self._sent, None
        try:
            if self._keeper.child != self._child:
                raise WorkerDied("ended between two steps")
            result: StepResult = self._keeper.receive()
        except WorkerDied as error:
            return self._lost(before, action, error)
        if isinstance(result, StepResult):  # what else it may give is judged by whoever asked
            self._now = result.observation if result.ending is None else None
            if result.ending not in (None, Ending.ENGINE_ERROR):
                self._faults.finished()
        return result

    def close(self) -> None:
        """End the child, in good order if it is idle; a later reset starts another one."""
        idle, self._now, self._sent = self._sent is None, None, None
        if idle:
            with suppress(WorkerDied, CbrError):
                self._keeper.leave(CLOSING)
        self._keeper.end()
        if self.counts:
            log.info("%s: %s", self._keeper.name, dict(self.counts))

    def _lost(self, before: Observation, action: Action, error: WorkerDied) -> StepResult:
        """The end of an episode whose game is gone."""
        self._now = None
        lost = self._faults.lost(str(error))
        if not isinstance(lost, EpisodeLost):
            raise lost from error
        still = replace(before, last_action=action.text, steps=before.steps + 1)
        return StepResult(still, 0.0, Ending.ENGINE_ERROR)

    def _fact(self, name: str, *arguments: str, again: bool = False) -> Any:
        """What does not change, asked once unless `again`. Not between `send` and `receive`."""
        if again or (name, *arguments) not in self._known:
            self._known[name, *arguments] = self._asked(name, *arguments)
        return self._known[name, *arguments]

    def _asked(self, name: str, *arguments: Any) -> Any:
        """The answer to a question. A child that has ended is started anew, once, and counted."""
        try:
            return self._keeper.ask(name, *arguments, times=FACTS)
        except WorkerEnded as error:
            lost = self._faults.lost(f"(asked for {name}) {error}")
            if not isinstance(lost, EpisodeLost):
                raise lost from error
            return self._keeper.fact(name, *arguments)
        except WorkerDied as error:
            raise self._keeper.unanswered(error, name, *arguments) from error


class _KnowsPlaces(IsolatedEnvironment):
    """One that is a `cbrcore.interfaces.KnowsPlaces`."""

    def object_places(self, split: str) -> Mapping[str, set[str]]:
        return {name: set(places) for name, places in self._fact("object_places", split).items()}


class _KnowsContents(IsolatedEnvironment):
    """One that is a `cbrcore.interfaces.KnowsContents`."""

    def content(self, game: str) -> str:
        return str(self._fact("content", game))


class _TellsPlaces(IsolatedEnvironment):
    """One that is a `cbrcore.interfaces.TellsPlaces`."""

    _mapped: tuple[Observation, Places] | None = None

    def places(self, observation: Observation) -> Places:
        """Asked once for an observation, however often in a row.

        Raises:
            RuntimeError: the last action was not received.
            RunFailed: the child does not answer.
        """
        if self._sent is not None:
            raise RuntimeError("the last action was not received: call receive() before places()")
        if self._mapped is None or self._mapped[0] is not observation:
            self._mapped = observation, self._asked("places", packed(observation))
        return self._mapped[1]


class _PlaysSlowly(IsolatedEnvironment):
    """One that is a `cbrcore.interfaces.PlaysSlowly`."""

    @property
    def random_passes(self) -> int:
        return int(self._fact("random_passes"))


class _ReportsMetrics(IsolatedEnvironment):
    """One that is a `cbrcore.interfaces.ReportsMetrics`."""

    def metrics(self) -> Mapping[str, float]:
        return dict(self._fact("metrics", again=True))


class _KeepsState(IsolatedEnvironment):
    """One that is a `cbrcore.interfaces.KeepsState`; a new child goes on without what the one before knew."""

    def state(self) -> Mapping[str, Any]:
        return dict(self._fact("state", again=True))

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._asked("load_state", dict(state))


ABILITIES: Mapping[str, type[IsolatedEnvironment]] = {
    "object_places": _KnowsPlaces,
    "content": _KnowsContents,
    "places": _TellsPlaces,
    "random_passes": _PlaysSlowly,
    "metrics": _ReportsMetrics,
    "load_state": _KeepsState,
}
"""What the child can be asked for -> the class of an environment that has it."""
