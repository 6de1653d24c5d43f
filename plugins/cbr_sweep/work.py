"""A sweep at work: every run that is not done is launched once, watched, and accounted for."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cbr_sweep.axes import expand
from cbr_sweep.finished import killed_by, why_not_done
from cbr_sweep.folder import PlannedRun, RunState, SweepFolder
from cbr_sweep.notes import notes
from cbr_sweep.plan import SweepPlan
from cbr_sweep.status import RunStatus, counts
from cbr_sweep.view import View, view
from cbrcore.console import StopRequest, graceful_interrupt
from cbrcore.errors import Interrupted, RunFailed
from cbrcore.interfaces import Job, Launcher
from cbrcore.runs.folder import user_of

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_FOR_FILES = 1.0
"""What another machine wrote may be seen here a little later."""
PASSED_ON = ("CBR_", "HF_", "OMP_", "MKL_", "TOKENIZERS_", "PYTHONPATH", "XDG_CACHE_HOME")
"""Beginnings of the environment variables that a run sees wherever it executes."""


@dataclass(frozen=True)
class Options:
    """How the sweep works: at most so many runs at once, and loose plugin files for each of them."""

    at_once: int | None = None
    plugins: tuple[Path, ...] = ()


def execute(plan: SweepPlan, launcher: Launcher, options: Options) -> str:
    """Execute what is not done yet; returns what came of it, in words.

    Raises:
        Interrupted, RunFailed: see `SweepWork.work`.
    """
    recipe = plan.request.recipe
    plan.folder.begin(recipe.name, plan.request.file, expand(recipe), plan.planned, typed=_typed(plan, options))
    with view() as shown, graceful_interrupt() as stop:
        return SweepWork(plan.folder, plan.planned, launcher, shown, stop, options).work()


def _typed(plan: SweepPlan, options: Options) -> list[str]:
    """The options that say which runs these are: without them the command would make others."""
    seed = [] if plan.request.seed is None else ["--seed", str(plan.request.seed)]
    sets = [word for each in plan.request.sets for word in ("--set", each)]
    return [*sets, *seed, *(word for file in options.plugins for word in ("--plugin", str(file)))]


class SweepWork:
    """The planned runs of a sweep in its folder.

    Args:
        stop: set when the user wants to stop.
    """

    def __init__(
        self,
        folder: SweepFolder,
        planned: Sequence[PlannedRun],
        launcher: Launcher,
        view: View,
        stop: StopRequest,
        options: Options,
    ) -> None:
        self.folder = folder
        self.launcher = launcher
        self.view = view
        self.stop = stop
        self.options = options
        self.runs = [RunStatus.of(item, folder) for item in planned]

    def __repr__(self) -> str:
        return f"SweepWork({self.folder!r}, {len(self.runs)} runs)"

    def work(self) -> str:
        """Execute what is not done; returns how many runs are in which state.

        Raises:
            Interrupted: the user stopped it; the runs have written their checkpoints.
            RunFailed: runs failed; all others are done.
        """
        for line in notes(self.runs):
            self.view.say(line)
        skipped = [status for status in self.runs if status.state is RunState.IN_USE]
        for status in skipped:
            self._say_in_use(status)
        self._launch([status for status in self.runs if status.state in (RunState.NEW, RunState.STARTED)])
        if not self.stop:
            self._look_again(skipped)
        self._judge()
        return f"{len(self.runs)} runs: {counts(self.runs)}"

    def _look_again(self, skipped: Sequence[RunStatus]) -> None:
        """What another process worked on may be done by now, or that process may be gone."""
        for status in skipped:
            status.state = self.folder.state(status.planned)
        self._launch([status for status in skipped if status.state in (RunState.NEW, RunState.STARTED)])

    def _launch(self, runs: Sequence[RunStatus]) -> None:
        if not runs:
            return
        jobs = [self._job(status) for status in runs]
        looked, told = 0.0, False
        with contextlib.closing(self.launcher.launch(jobs, self.options.at_once)) as ended:
            for some in ended:
                for position, code in some:
                    self._end(runs[position], code)
                now = time.monotonic()
                if now - looked >= SECONDS_BETWEEN_LOOKS:
                    looked = now
                    self._look(runs, now)
                if self.stop and not told:
                    told = True
                    self._interrupt()

    def _interrupt(self) -> None:
        self.view.say("interrupted: the runs write their checkpoints first; once more to stop at once")
        self.launcher.interrupt()

    def _job(self, status: RunStatus) -> Job:
        """The command that begins or continues the run."""
        status.launched()
        plugins = [part for file in self.options.plugins for part in ("--plugin", str(file.resolve()))]
        path = str(self.folder.run(status.id))
        if status.state is RunState.STARTED:
            what = ["run", "--resume", path]
        else:
            what = ["run", str(self.folder.recipe(status.id)), "--out", path]
        command = (sys.executable, "-m", "cbrcore.cli", *what, *plugins)
        return Job(command, status.log, environment(os.environ))

    def _look(self, runs: Sequence[RunStatus], now: float) -> None:
        """Notice which runs have begun, and how far each one is."""
        for status in runs:
            if status.state in (RunState.NEW, RunState.STARTED) and _has_begun(status):
                status.start(now)
                self.view.changed(status, self.runs)
            if status.state is RunState.RUNNING:
                status.look(now)
        self.view.refresh(self.runs)

    def _end(self, status: RunStatus, code: int) -> None:
        now = time.monotonic()
        if status.started is None:
            status.start(now)
        status.end(self._state_after(status, code), now)
        if status.state is RunState.IN_USE:
            self._say_in_use(status)
        else:
            self.view.changed(status, self.runs)

    def _state_after(self, status: RunStatus, code: int) -> RunState:
        """By its results, whatever the exit code: a part may end the process in the middle with 0, and a run that
        ended badly may be one that another sweep took at the same moment."""
        if code == 0 and self.folder.state(status.planned) is not RunState.DONE:
            time.sleep(SECONDS_FOR_FILES)
        found = self.folder.state(status.planned)
        if found in (RunState.DONE, RunState.IN_USE):
            return found
        if code == Interrupted.exit_code:
            return RunState.INTERRUPTED
        status.why = killed_by(code) or ""
        if code == 0:
            status.why = f"it ended with exit code 0, but {why_not_done(status.folder, status.planned.recipe)}"
        return RunState.FAILED

    def _say_in_use(self, status: RunStatus) -> None:
        user = user_of(status.folder) or "a process that has just ended"
        self.view.say(f"{status.id}: skipped, {user} works on it")

    def _judge(self) -> None:
        stopped = [status for status in self.runs if status.state is RunState.INTERRUPTED]
        failed = [status for status in self.runs if status.state is RunState.FAILED]
        if self.stop:
            raise Interrupted(
                f"interrupted; {counts(self.runs)}", hint="go on with the same command: what is done is skipped"
            )
        if failed or stopped:
            lines = [f"  {run.id}: {run.last_error()}\n    log: {run.log}" for run in (*failed, *stopped)]
            raise RunFailed(
                "\n".join([f"{len(lines)} of {len(self.runs)} runs failed:", *lines]),
                hint="mend the cause and repeat the command: what is done is skipped",
            )


def _has_begun(status: RunStatus) -> bool:
    """A run whose process has said something, or has taken the folder, is running."""
    return status.has_spoken() or user_of(status.folder) is not None


def environment(here: Mapping[str, str]) -> dict[str, str]:
    """What a run sees wherever it executes: our own variables, and one torch thread unless told otherwise."""
    passed = {name: value for name, value in here.items() if name.startswith(PASSED_ON)}
    return {"OMP_NUM_THREADS": "1", **passed}
