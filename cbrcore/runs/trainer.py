"""The run: prepare the retriever, then play, learn, retain, and keep records, until the budget is used.

Everything that must survive a kill is saved between two game plays, so a resumed run continues with the
next play and ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbrcore.config import expand_path
from cbrcore.cycle.evaluation import ReuseCounts, game_seed
from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace, decide_together
from cbrcore.cycle.retriever import module_tensors
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.errors import CbrError, Interrupted, RunFailed
from cbrcore.interfaces import ReportsMetrics, Scene, StoredCases
from cbrcore.recipe import plain_recipe
from cbrcore.rng import Streams, derive_seed, generator
from cbrcore.runs.assemble import Learning
from cbrcore.runs.checkpoint import (
    LAST,
    Progress,
    State,
    keep_checkpoint,
    latest_checkpoint,
    restore_agent,
    save_checkpoint,
    write_checkpoint,
)
from cbrcore.runs.folder import METRICS_FILE, MetricsLog, Recorders, run_command
from cbrcore.runs.results import unscored
from cbrcore.types import Decision, Episode, Observation, Provenance, StepResult

if TYPE_CHECKING:
    from cbrcore.runs import Work

log = logging.getLogger(__name__)

LOSSES = ("loss_policy", "loss_value", "loss_entropy", "loss_retriever")
"""Columns of every metrics row; None where a learner has no such loss."""
FREE_SECONDS, SHARE, SECONDS_BETWEEN = 1.0, 0.02, 30.0
"""The state after each round of plays is kept, for the case that a part fails, as long as this took so many
seconds in all; then as often as it takes this share of the time, and at most once in so many seconds."""


def joined(known: dict[str, Any], more: Mapping[str, Any], said: str) -> dict[str, Any]:
    """Both, by name; RunFailed if a name is in both: `said` of the second that it has it."""
    if taken := sorted(known.keys() & more):
        raise RunFailed(f"{said} {taken[0]!r}, which is taken; give it another name")
    return known | dict(more)


class LearningActor:
    """One player of the agent while it trains: decides, and retains when rewarded."""

    def __init__(self, reasoner: CaseBasedReasoner, streams: Streams, progress: Progress, seat: int = 0) -> None:
        self.reasoner = reasoner
        self._streams = streams
        self._progress = progress
        self._seat = seat
        self._game = ""

    def begin(self, game: str) -> None:
        self._game = game
        self._episode = self._progress.games_played + self._seat + 1
        self.reasoner.begin_episode(learning=True)

    def decide(self, observation: Observation) -> tuple[Decision, Trace]:
        return self.reasoner.decide(observation, self._streams.numpy("agent"))

    def observe(self, decision: Decision, trace: Trace, result: StepResult) -> None:
        self._progress.env_steps += 1
        if decision.chosen is not None:
            decision.chosen.match.case.reused += 1
            decision.chosen.match.case.reuse_rewarded += result.reward > 0
        self.reasoner.observe(decision, trace, result)
        origin = Provenance(self._game, self._streams.seed, self._episode, 0, result.reward)
        self.reasoner.retain(self._streams.numpy("retain"), origin, env_steps=self._progress.env_steps)


class Trainer:
    """Trains one agent in one run folder.

    Args:
        work: as many games are played at the same time as its parts have environments.
        learning: learner and pretraining, not begun yet.
        recorders: are told every row of the metrics.

    Attributes:
        entered: whether it went on where the folder's records end; before, they are of an earlier start.
    """

    def __init__(self, work: Work, learning: Learning, recorders: Recorders) -> None:
        self.recipe, self.parts, self.folder = work.recipe, work.parts, work.folder
        self.reporter, self.stop = work.reporter, work.stop
        self.reasoner, self.streams = self.parts.reasoner, self.parts.streams
        self.learner, self.pretraining = learning.learner, learning.pretraining
        self.recorders, self.progress, self._began = recorders, Progress(), 0.0
        self.entered = False
        self._kept: tuple[Path, int] | None = None
        self._kept_games, self._keep_seconds, self._keep_next, self._skipped_before = -1, 0.0, 0.0, 0
        players = [self.reasoner, *(self.reasoner.companion() for _ in self.parts.environments[1:])]
        self.learner.begin(players, self.recipe.training, self.streams, self.parts.clock)
        actors = [LearningActor(player, self.streams, self.progress, seat) for seat, player in enumerate(players)]
        self._seats = [Seat(*pair) for pair in zip(self.parts.environments, actors, strict=True)]
        environment = self.parts.environment
        self._games = environment.games("train")
        self._unscored = functools.cache(lambda game: unscored(environment.game_info(game)))
        episodes, env_steps = self.recipe.run.episodes, self.recipe.run.env_steps
        self._by_plays = episodes is not None
        self._budget = (env_steps or 0) if episodes is None else episodes * len(self._games)

    def __repr__(self) -> str:
        return f"Trainer({self.recipe.name!r}, {self.progress.games_played} games played)"

    def tell_recorders(self) -> None:
        """That the run begins, or goes on here; CbrError: one of them cannot record it."""
        self.recorders.begin(self.folder.path, plain_recipe(self.recipe), after=self.progress.games_played)

    def train(self, begin: Callable[[Trainer], None] = tell_recorders) -> Progress:
        """Continue from the latest checkpoint, if there is one, to the end of the budget. If a part fails, the
        last state between two rounds of plays that was kept becomes a checkpoint.

        Args:
            begin: called when it is clear where the run goes on; tells the recorders.

        Raises:
            Interrupted: the user stopped the run; a checkpoint is written.
            RunFailed: the learner gave up, or a game offers nothing to do.
        """
        self._restore()
        keep, digest = self.progress.metrics_bytes, self.progress.metrics_sha256
        metrics = MetricsLog(self.folder.path / METRICS_FILE, keep_bytes=keep, sha256=digest)
        self._began = time.perf_counter() - self.progress.seconds.get("total", 0.0)
        try:
            begin(self)
            self.entered = True
            self._begin(metrics)
            self._play(metrics)
        except BaseException:
            self._save_kept()
            raise
        finally:
            self.progress.seconds["total"] = time.perf_counter() - self._began
            metrics.close()
        return self.progress

    def _begin(self, metrics: MetricsLog) -> None:
        """What starts a run, once: a resumed run needs nothing of it again, and it may be gone by then."""
        if self.progress.begun:
            return
        given = self._given_cases()
        self._pretrain()
        if given is not None and self.reasoner.retriever is not None:
            if self.progress.pretrained:
                self.save(metrics)  # whatever is wrong with the cases
            self.reasoner.retriever.adopt(given)
        self.progress.begun = True
        if given is not None or self.progress.pretrained:
            self.save(metrics)
            self._leave_if_asked()

    def _given_cases(self) -> StoredCases | None:
        """The cases that the recipe says to start with; read first, so that a wrong path is found out at once."""
        memory, retriever = self.recipe.memory, self.reasoner.retriever
        if memory is None or memory.settings.cases is None or retriever is None:
            return None
        return retriever.memory.read(expand_path(memory.settings.cases, self.recipe.directory))

    def _pretrain(self) -> None:
        """What the retriever learns before the first play, once [P §5]."""
        if self.pretraining is None or self.progress.pretrained:
            return
        parts, recipe, told = self.parts, self.recipe, (self._phase, self._advance)
        scene = Scene(
            parts.environments, self.reasoner, recipe.training, self.streams, parts.clock, recipe.directory, *told
        )
        facts = self.pretraining.run(scene)
        if facts is not None:
            self.progress.pretraining, self.progress.pretrained = dict(facts), True

    def _phase(self, title: str, total: int, done: int = 0) -> None:
        """Work begins: whatever could be wrong with the recipe would have been found by now."""
        self.folder.stands()
        self.reporter.phase(title, total, done)

    def _advance(self) -> None:
        self.reporter.advance()
        self._leave_if_asked()

    def _leave_if_asked(self) -> None:
        if self.stop:
            hint = f"continue with: {run_command('run --resume', self.folder.path)}"
            raise Interrupted("interrupted", hint=hint)

    # -- the loop ------------------------------------------------------------------------------------------

    def _play(self, metrics: MetricsLog) -> None:
        unit = "game plays" if self._by_plays else "env steps"
        self._phase(f"training ({unit})", self._budget, self._done)
        idle = 0
        while plays := self._next_plays():
            self._keep(metrics)
            episodes = play_together(
                self._seats, plays, decide=self._decide, observer=self.learner, clock=self.parts.clock
            )
            idle = 0 if any(episode.steps for episode in episodes) else idle + len(episodes)
            if not self._by_plays and idle >= 2 * len(self._games):  # at least one whole pass
                hint = "look at the environment's games: cbr play"
                raise RunFailed("no game offers anything to do: a whole pass took not one step", hint=hint)
            losses = self.learner.pop_losses()
            for episode in episodes:
                self.progress.count(episode)
                row = self._row(episode, losses)
                metrics.write(row)
                self.recorders.write(row)
                scored = "-" if row["score"] is None else f"{episode.score:g}"
                for _ in range(1 if self._by_plays else episode.steps):
                    self.reporter.advance(f"score {scored}, {row['memory_size']} cases")
            due = self.progress.games_played % self.recipe.run.checkpoint_every < len(plays)
            if self.stop or due or not self._next_plays():
                self.save(metrics)
            self._leave_if_asked()

    def _decide(
        self, actors: Sequence[LearningActor], observations: Sequence[Observation]
    ) -> list[tuple[Decision, Trace]]:
        return decide_together([actor.reasoner for actor in actors], observations, self.streams.numpy("agent"))

    @property
    def fits_budget(self) -> bool:
        """Whether a run with this budget from the start would have come by here: it is not less than what is done,
        and the budget before has cut no round of plays short."""
        cut = self.progress.games_played % len(self._seats)
        return self._done <= self._budget and (not cut or (self._by_plays and self._done == self._budget))

    @property
    def _done(self) -> int:
        """Of the budget."""
        return self.progress.games_played if self._by_plays else self.progress.env_steps

    def _next_plays(self) -> list[tuple[str, int]]:
        """(game, its seed) of the next round, one for each seat; fewer at the end of the budget, then none."""
        first, left = self.progress.games_played, self._budget - self._done
        if left <= 0:
            return []
        count = min(left, len(self._seats)) if self._by_plays else len(self._seats)
        return [self._play_number(number) for number in range(first, first + count)]

    def _play_number(self, number: int) -> tuple[str, int]:
        """(game, its seed) of one play of the run. Each pass plays all games in an order of its own."""
        number, position = divmod(number, len(self._games))
        stream = derive_seed(self.streams.seed, f"train:{number}")
        order = generator(stream).permutation(len(self._games))
        game = self._games[int(order[position])]
        return game, game_seed(stream, game)

    def _row(self, episode: Episode, losses: Mapping[str, float | None]) -> dict[str, Any]:
        """One line of metrics.jsonl, without a clock. Games in step share env_steps, memory_size and losses."""
        counts = ReuseCounts.of(episode)
        retriever = self.reasoner.retriever
        row = {
            "episode": self.progress.games_played,
            "env_steps": self.progress.env_steps,
            "game": episode.game,
            "score": None if self._unscored(episode.game) else episode.score,
            "norm_score": episode.norm_score,
            "steps": episode.steps,
            "ending": str(episode.ending),
            "reused": counts.reused,
            "reuse_rewarded": counts.rewarded,
            "agent_steps": episode.steps - counts.reused,
            "memory_size": len(retriever.memory) if retriever else 0,
            **{name: losses.get(name) for name in LOSSES},
            "reuse_agent_same": counts.agent_same,
        }
        others = {name: value for name, value in losses.items() if name not in LOSSES}
        for name, figures in [("learner", others), *((name, part.metrics()) for name, part in self._reporting())]:
            row = joined(row, figures, f"{name} reports the metric")
        return row

    def _reporting(self) -> list[tuple[str, ReportsMetrics]]:
        """The parts that have figures of their own, by name."""
        reasoner, retriever = self.reasoner, self.reasoner.retriever
        parts: dict[str, Any] = {**retriever.modules(), "memory": retriever.memory} if retriever else {}
        parts |= {"agent": reasoner.agent, "learner": self.learner, "environment": self.parts.environment}
        parts |= {"retain_policy": reasoner.retain_policy, "reuse_policy": reasoner.reuse_policy}
        return [(name, part) for name, part in parts.items() if isinstance(part, ReportsMetrics)]

    # -- checkpoints ---------------------------------------------------------------------------------------

    def save(self, metrics: MetricsLog) -> None:
        """Write a checkpoint; all that is needed to go on from here."""
        save_checkpoint(self.folder.checkpoints, self._state(metrics))
        self._kept, self._kept_games = None, self.progress.games_played  # an older state, and by now removed

    def _state(self, metrics: MetricsLog) -> State:
        """What a checkpoint holds."""
        progress, retriever = self.progress, self.reasoner.retriever
        progress.metrics_bytes, progress.metrics_sha256 = metrics.position(), metrics.sha256
        progress.skipped_updates = self._skipped_before + self.learner.skipped
        progress.seconds.update(self.parts.clock.seconds, total=time.perf_counter() - self._began)
        progress.refreshed = retriever is not None and retriever.refreshed
        parts = module_tensors(self.reasoner.modules())
        tensors = joined(parts, self.learner.tensors(), "learner keeps the tensor")
        memories = retriever.memory.stores() if retriever else {}
        kept = {name: part.state() for name, part in self.parts.keepers().items()}
        return State(progress, tensors, self.streams.state(), memories, plain_recipe(self.recipe), kept)

    def _keep(self, metrics: MetricsLog) -> None:
        """Keep the state between two rounds of plays, if that is not too often."""
        now = time.monotonic()
        due = self._keep_seconds < FREE_SECONDS or now >= self._keep_next
        if not due or self._kept_games == self.progress.games_played:
            return
        folder = self.folder.checkpoints / f".{LAST}.{os.getpid()}.tmp"
        spare = folder.with_name(f".{LAST}.tmp")
        self._kept_games = self.progress.games_played
        with contextlib.suppress(OSError, CbrError):  # what cannot be kept is not: the checkpoints are elsewhere
            write_checkpoint(spare, self._state(metrics))
            shutil.rmtree(folder, ignore_errors=True)
            self._kept = spare.rename(folder), self._kept_games
        took = time.monotonic() - now
        self._keep_seconds += took
        self._keep_next = now + took + max(took / SHARE, SECONDS_BETWEEN)

    def _save_kept(self) -> None:
        """Make the state that was kept the newest checkpoint."""
        if self._kept is not None:
            with contextlib.suppress(OSError):
                log.info("saved as it was before the failure: %s", keep_checkpoint(*self._kept))

    def _restore(self) -> None:
        path = latest_checkpoint(self.folder.checkpoints)
        if path is None:
            return
        progress, tensors, streams = restore_agent(path, self.reasoner, self.parts.keepers())
        vars(self.progress).update(vars(progress))
        self._skipped_before, self._kept_games = progress.skipped_updates, progress.games_played
        if self.reasoner.retriever is not None:
            self.reasoner.retriever.refreshed = progress.refreshed
        self.streams.restore(streams)
        self.parts.clock.seconds.update(progress.seconds)
        self.learner.load_tensors(tensors)
        log.info("resumed from %s", path)
