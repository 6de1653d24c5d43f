"""The run: prepare the retriever, then play, learn, retain, and keep records, until the budget is used.

Everything that must survive a kill is saved between two game plays, so a resumed run continues with the
next play and ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cbrcore.config import Recipe, expand_path
from cbrcore.console import Reporter, StopRequest
from cbrcore.cycle.casefiles import read_cases
from cbrcore.cycle.evaluation import ReuseCounts, game_seed
from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace, decide_together
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.errors import Interrupted, RunFailed
from cbrcore.interfaces import ReportsMetrics, Scene, StoredCases
from cbrcore.recipe import plain_recipe
from cbrcore.rng import Streams, derive_seed, generator
from cbrcore.runs.assemble import Learning, Parts
from cbrcore.runs.checkpoint import (
    Progress,
    agent_modules,
    latest_checkpoint,
    module_tensors,
    restore_agent,
    save_checkpoint,
)
from cbrcore.runs.folder import METRICS_FILE, MetricsLog, Recorders, RunFolder
from cbrcore.types import Decision, Episode, Observation, Provenance, StepResult

log = logging.getLogger(__name__)

LOSSES = ("loss_policy", "loss_value", "loss_entropy", "loss_retriever")
"""Columns of every metrics row; None where a learner has no such loss."""


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
        self.reasoner.begin_episode()

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
        recipe: the whole recipe.
        parts: built from it. As many games are played at the same time as there are environments.
        learning: learner and pretraining, not begun yet.
        recorders: are told every row of the metrics.
        folder: where records and checkpoints go.
        reporter: shows progress.
        stop: set when the user wants to stop.
    """

    def __init__(
        self,
        recipe: Recipe,
        parts: Parts,
        learning: Learning,
        recorders: Recorders,
        folder: RunFolder,
        reporter: Reporter,
        stop: StopRequest,
    ) -> None:
        self.recipe = recipe
        self.parts = parts
        self.reasoner = parts.reasoner
        self.streams = parts.streams
        self.learner = learning.learner
        self.pretraining = learning.pretraining
        self.recorders = recorders
        self.folder = folder
        self.reporter = reporter
        self.stop = stop
        self.progress = Progress()
        players = [self.reasoner, *(self.reasoner.companion() for _ in parts.environments[1:])]
        self.learner.begin(players, recipe.training, parts.streams, parts.clock)
        self._games = parts.environment.games("train")
        self._seats = [
            Seat(environment, LearningActor(player, parts.streams, self.progress, number))
            for number, (environment, player) in enumerate(zip(parts.environments, players, strict=True))
        ]

    def __repr__(self) -> str:
        return f"Trainer({self.recipe.name!r}, {self.progress.games_played} games played)"

    def train(self) -> Progress:
        """Continue from the latest checkpoint, if there is one, to the end of the budget.

        Raises:
            Interrupted: the user stopped the run; a checkpoint is written.
            RunFailed: the learner gave up, or a game offers nothing to do.
        """
        self._restore()
        metrics = MetricsLog(self.folder.path / METRICS_FILE, keep_bytes=self.progress.metrics_bytes)
        started, before = time.perf_counter(), self.progress.seconds.get("total", 0.0)
        try:
            self.recorders.begin(self.folder.path, plain_recipe(self.recipe), after=self.progress.games_played)
            given = self._given_cases()
            self._pretrain(metrics)
            if given is not None and self.reasoner.retriever is not None and not self.progress.games_played:
                self.reasoner.retriever.adopt(given)
            self._play(metrics)
        finally:
            self.progress.seconds["total"] = before + time.perf_counter() - started
            metrics.close()
        return self.progress

    def _given_cases(self) -> StoredCases | None:
        """The cases that the recipe says to start with; read first, so that a wrong path is found out at once."""
        memory = self.recipe.memory
        if memory is None or memory.settings.cases is None:
            return None
        return read_cases(expand_path(memory.settings.cases, self.recipe.directory))

    def _pretrain(self, metrics: MetricsLog) -> None:
        """What the retriever learns before the first play, once [P §5]."""
        if self.pretraining is None or self.progress.pretrained:
            return
        scene = Scene(
            self.parts.environments,
            self.reasoner,
            self.recipe.training,
            self.streams,
            self.parts.clock,
            self.recipe.directory,
            self.reporter.phase,
            self._advance,
        )
        facts = self.pretraining.run(scene)
        if facts is None:
            return
        self.progress.pretraining = dict(facts)
        self.progress.pretrained = True
        self.save(metrics)
        self._leave_if_asked()

    def _advance(self) -> None:
        self.reporter.advance()
        self._leave_if_asked()

    # -- the loop ------------------------------------------------------------------------------------------

    def _play(self, metrics: MetricsLog) -> None:
        run, unit = self.recipe.run, "env steps" if self.recipe.run.episodes is None else "game plays"
        self.reporter.phase(f"training ({unit})", self._budget(), self._done())
        while plays := self._next_plays():
            episodes = play_together(
                self._seats, plays, decide=self._decide, observer=self.learner, clock=self.parts.clock
            )
            losses = self.learner.pop_losses()
            for episode in episodes:
                self.progress.count(episode)
                row = self._row(episode, losses)
                metrics.write(row)
                self.recorders.write(row)
                for _ in range(1 if run.episodes is not None else episode.steps):
                    self.reporter.advance(f"score {episode.score:g}, {row['memory_size']} cases")
            if self.stop or self._checkpoint_due(len(plays)) or not self._next_plays():
                self.save(metrics)
            self._leave_if_asked()

    def _decide(
        self, actors: Sequence[LearningActor], observations: Sequence[Observation]
    ) -> list[tuple[Decision, Trace]]:
        return decide_together([actor.reasoner for actor in actors], observations, self.streams.numpy("agent"))

    def _next_plays(self) -> list[tuple[str, int]]:
        """(game, its seed) of the next round, one for each seat; fewer at the end of the budget, then none."""
        first, left = self.progress.games_played, self._budget() - self._done()
        count = min(left, len(self._seats)) if self.recipe.run.episodes is not None else len(self._seats)
        return [self._play_number(number) for number in range(first, first + count)] if left > 0 else []

    def _play_number(self, number: int) -> tuple[str, int]:
        """(game, its seed) of one play of the run. Each pass plays all games in an order of its own."""
        number, position = divmod(number, len(self._games))
        stream = derive_seed(self.streams.seed, f"train:{number}")
        order = generator(stream).permutation(len(self._games))
        game = self._games[int(order[position])]
        return game, game_seed(stream, game)

    def _checkpoint_due(self, played: int) -> bool:
        """Whether the last `played` games completed a number of games after which a checkpoint is due."""
        return self.progress.games_played % self.recipe.run.checkpoint_every < played

    def _budget(self) -> int:
        run = self.recipe.run
        if run.episodes is not None:
            return run.episodes * len(self._games)
        return run.env_steps or 0

    def _done(self) -> int:
        return self.progress.games_played if self.recipe.run.episodes is not None else self.progress.env_steps

    def _row(self, episode: Episode, losses: Mapping[str, float | None]) -> dict[str, Any]:
        """One line of metrics.jsonl. There is no clock in it: equal runs give equal bytes. Games that were played
        at the same time share what is not theirs alone: env_steps, memory_size, losses."""
        counts = ReuseCounts.of(episode)
        retriever = self.reasoner.retriever
        row = {
            "episode": self.progress.games_played,
            "env_steps": self.progress.env_steps,
            "game": episode.game,
            "score": episode.score,
            "norm_score": episode.norm_score,
            "steps": episode.steps,
            "ending": str(episode.ending),
            "reused": counts.reused,
            "reuse_rewarded": counts.rewarded,
            "agent_steps": episode.steps - counts.reused,
            "memory_size": len(retriever.memory) if retriever else 0,
            **dict.fromkeys(LOSSES),
            **losses,
            "reuse_agent_same": counts.agent_same,
        }
        for part, figures in self._figures().items():
            if known := sorted(row.keys() & figures):
                raise RunFailed(f"{part} reports the metric {known[0]!r}, which is taken; give it another name")
            row |= figures
        return row

    def _figures(self) -> dict[str, Mapping[str, float]]:
        """What the parts themselves report, under their own names."""
        retriever = self.reasoner.retriever
        parts: dict[str, Any] = {"agent": self.reasoner.agent, "learner": self.learner}
        parts |= {"environment": self.parts.environment, "retain_policy": self.reasoner.retain_policy}
        if retriever is not None:
            parts = retriever.modules() | {"memory": retriever.memory} | parts
        return {name: part.metrics() for name, part in parts.items() if isinstance(part, ReportsMetrics)}

    # -- checkpoints ---------------------------------------------------------------------------------------

    def save(self, metrics: MetricsLog) -> None:
        """Write a checkpoint; all that is needed to go on from here."""
        self.progress.metrics_bytes = metrics.position()
        self.progress.skipped_updates = self.learner.skipped
        self.progress.seconds.update(self.parts.clock.seconds)
        tensors = module_tensors(agent_modules(self.reasoner)) | dict(self.learner.tensors())
        memories = self.reasoner.retriever.memory.stores() if self.reasoner.retriever else {}
        save_checkpoint(self.folder.checkpoints, self.progress, tensors, self.streams.state(), memories)

    def _restore(self) -> None:
        path = latest_checkpoint(self.folder.checkpoints)
        if path is None:
            return
        progress, tensors, streams = restore_agent(path, self.reasoner)
        vars(self.progress).update(vars(progress))
        self.streams.restore(streams)
        self.parts.clock.seconds.update(progress.seconds)
        self.learner.load_tensors(tensors)
        log.info("resumed from %s", path)

    def _leave_if_asked(self) -> None:
        if self.stop:
            raise Interrupted("interrupted", hint=f"continue with: cbr run --resume {self.folder.path}")
