"""The run: prepare the retriever, then play, learn, retain, and keep records, until the budget is used.

Everything that must survive a kill is saved between two game plays, so a resumed run continues with the
next play and ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cbrcore.config import expand_path
from cbrcore.cycle.evaluation import ReuseCounts, game_seed
from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace, decide_together
from cbrcore.cycle.retriever import module_tensors
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.errors import Interrupted, RunFailed
from cbrcore.interfaces import ReportsMetrics, Scene, StoredCases
from cbrcore.recipe import plain_recipe
from cbrcore.rng import Streams, derive_seed, generator
from cbrcore.runs.assemble import Learning
from cbrcore.runs.checkpoint import Progress, latest_checkpoint, restore_agent, save_checkpoint
from cbrcore.runs.folder import METRICS_FILE, MetricsLog, Recorders
from cbrcore.types import Decision, Episode, Observation, Provenance, StepResult

if TYPE_CHECKING:
    from cbrcore.runs import Work

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
        work: as many games are played at the same time as its parts have environments.
        learning: learner and pretraining, not begun yet.
        recorders: are told every row of the metrics.
    """

    def __init__(self, work: Work, learning: Learning, recorders: Recorders) -> None:
        self.recipe, self.parts, self.folder = work.recipe, work.parts, work.folder
        self.reporter, self.stop = work.reporter, work.stop
        self.reasoner, self.streams = self.parts.reasoner, self.parts.streams
        self.learner, self.pretraining = learning.learner, learning.pretraining
        self.recorders, self.progress = recorders, Progress()
        players = [self.reasoner, *(self.reasoner.companion() for _ in self.parts.environments[1:])]
        self.learner.begin(players, self.recipe.training, self.streams, self.parts.clock)
        actors = [LearningActor(player, self.streams, self.progress, seat) for seat, player in enumerate(players)]
        self._seats = [Seat(*pair) for pair in zip(self.parts.environments, actors, strict=True)]
        self._games = self.parts.environment.games("train")
        episodes, env_steps = self.recipe.run.episodes, self.recipe.run.env_steps
        self._by_plays = episodes is not None
        self._budget = (env_steps or 0) if episodes is None else episodes * len(self._games)

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
        memory, retriever = self.recipe.memory, self.reasoner.retriever
        if memory is None or memory.settings.cases is None or retriever is None:
            return None
        return retriever.memory.read(expand_path(memory.settings.cases, self.recipe.directory))

    def _pretrain(self, metrics: MetricsLog) -> None:
        """What the retriever learns before the first play, once [P §5]."""
        if self.pretraining is None or self.progress.pretrained:
            return
        parts, recipe, told = self.parts, self.recipe, (self.reporter.phase, self._advance)
        scene = Scene(
            parts.environments, self.reasoner, recipe.training, self.streams, parts.clock, recipe.directory, *told
        )
        facts = self.pretraining.run(scene)
        if facts is not None:
            self.progress.pretraining, self.progress.pretrained = dict(facts), True
            self.save(metrics)
            self._leave_if_asked()

    def _advance(self) -> None:
        self.reporter.advance()
        self._leave_if_asked()

    def _leave_if_asked(self) -> None:
        if self.stop:
            raise Interrupted("interrupted", hint=f"continue with: cbr run --resume {self.folder.path}")

    # -- the loop ------------------------------------------------------------------------------------------

    def _play(self, metrics: MetricsLog) -> None:
        unit = "game plays" if self._by_plays else "env steps"
        self.reporter.phase(f"training ({unit})", self._budget, self._done)
        idle = 0
        while plays := self._next_plays():
            episodes = play_together(
                self._seats, plays, decide=self._decide, observer=self.learner, clock=self.parts.clock
            )
            idle = 0 if any(episode.steps for episode in episodes) else idle + len(episodes)
            if not self._by_plays and idle >= 2 * len(self._games):  # at least one whole pass
                raise RunFailed("no game offers anything to do: not one step was taken in a whole pass")
            losses = self.learner.pop_losses()
            for episode in episodes:
                self.progress.count(episode)
                row = self._row(episode, losses)
                metrics.write(row)
                self.recorders.write(row)
                for _ in range(1 if self._by_plays else episode.steps):
                    self.reporter.advance(f"score {episode.score:g}, {row['memory_size']} cases")
            due = self.progress.games_played % self.recipe.run.checkpoint_every < len(plays)
            if self.stop or due or not self._next_plays():
                self.save(metrics)
            self._leave_if_asked()

    def _decide(
        self, actors: Sequence[LearningActor], observations: Sequence[Observation]
    ) -> list[tuple[Decision, Trace]]:
        return decide_together([actor.reasoner for actor in actors], observations, self.streams.numpy("agent"))

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
        for name, part in self._reporting():
            figures = part.metrics()
            if known := sorted(row.keys() & figures):
                raise RunFailed(f"{name} reports the metric {known[0]!r}, which is taken; give it another name")
            row |= figures
        return row

    def _reporting(self) -> list[tuple[str, ReportsMetrics]]:
        """The parts that have figures of their own, by name."""
        reasoner = self.reasoner
        parts: dict[str, Any] = {}
        if reasoner.retriever is not None:
            parts = {**reasoner.retriever.modules(), "memory": reasoner.retriever.memory}
        parts |= {"agent": reasoner.agent, "learner": self.learner}
        parts |= {"environment": self.parts.environment, "retain_policy": reasoner.retain_policy}
        return [(name, part) for name, part in parts.items() if isinstance(part, ReportsMetrics)]

    # -- checkpoints ---------------------------------------------------------------------------------------

    def save(self, metrics: MetricsLog) -> None:
        """Write a checkpoint; all that is needed to go on from here."""
        self.progress.metrics_bytes = metrics.position()
        self.progress.skipped_updates = self.learner.skipped
        self.progress.seconds.update(self.parts.clock.seconds)
        tensors = module_tensors(self.reasoner.modules()) | dict(self.learner.tensors())
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
