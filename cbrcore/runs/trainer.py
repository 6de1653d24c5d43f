"""The run: pretrain the retriever, then play, learn, retain, and keep records, until the budget is used.

Everything that must survive a kill is saved between two game plays, so a resumed run continues with the
next play and ends with the same bytes as one that was never stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cbrcore.cycle.casefiles import read_cases
from cbrcore.config import Recipe, expand_path
from cbrcore.errors import Interrupted
from cbrcore.cycle.evaluation import ReuseCounts, game_seed
from cbrcore.interfaces import ContextEncoder, Environment, StoredCases
from cbrcore.console import Reporter, StopRequest
from cbrcore.cycle.reasoner import CaseBasedReasoner, Trace, decide_together
from cbrcore.runs.folder import METRICS_FILE, MetricsLog, RunFolder, TensorBoardLog
from cbrcore.rng import Streams, derive_seed
from cbrcore.cycle.runner import Seat, play_together
from cbrcore.interfaces import Stopwatch
from cbrcore.runs.checkpoint import (
    Progress,
    agent_modules,
    latest_checkpoint,
    module_tensors,
    restore_agent,
    save_checkpoint,
)
from cbr_pretrain.experience import collect_experience
from cbr_a2c.learner import Learner
from cbr_pretrain.pairs import Experience, pretrain_retriever
from cbr_pretrain.retriever_file import load_retriever
from cbrcore.types import Decision, Episode, Observation, Provenance, StepResult

log = logging.getLogger(__name__)


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
        environments, reasoner: built from it. As many games are played at the same time as there are
            environments.
        streams: the run's random sources.
        clock: shared with the reasoner.
        folder: where records and checkpoints go.
        reporter: shows progress.
        stop: set when the user wants to stop.
    """

    def __init__(
        self,
        recipe: Recipe,
        environments: Sequence[Environment],
        reasoner: CaseBasedReasoner,
        streams: Streams,
        clock: Stopwatch,
        folder: RunFolder,
        reporter: Reporter,
        stop: StopRequest,
    ) -> None:
        self.recipe = recipe
        self.environments = environments
        self.reasoner = reasoner
        self.streams = streams
        self.clock = clock
        self.folder = folder
        self.reporter = reporter
        self.stop = stop
        self.progress = Progress()
        players = [reasoner, *(reasoner.companion() for _ in environments[1:])]
        self.learner = Learner(players, recipe.training, streams, clock)
        self._games = environments[0].games("train")
        self._seats = [
            Seat(environment, LearningActor(player, streams, self.progress, number))
            for number, (environment, player) in enumerate(zip(environments, players, strict=True))
        ]

    def __repr__(self) -> str:
        return f"Trainer({self.recipe.name!r}, {self.progress.games_played} games played)"

    def train(self) -> Progress:
        """Continue from the latest checkpoint, if there is one, to the end of the budget.

        Raises:
            Interrupted: the user stopped the run; a checkpoint is written.
            RunFailed: see `GuardedAdam`, `play_episode`.
        """
        self._restore()
        metrics = MetricsLog(self.folder.path / METRICS_FILE, keep_bytes=self.progress.metrics_bytes)
        board = TensorBoardLog(self.folder.path, purge_step=self.progress.games_played + 1)
        started, before = time.perf_counter(), self.progress.seconds.get("total", 0.0)
        try:
            given = self._given_cases()
            self._pretrain(metrics)
            if given is not None and self.reasoner.retriever is not None and not self.progress.games_played:
                self.reasoner.retriever.adopt(given)
            self._play(metrics, board)
        finally:
            self.progress.seconds["total"] = before + time.perf_counter() - started
            metrics.close()
            board.close()
        return self.progress

    def _given_cases(self) -> StoredCases | None:
        """The cases that the recipe says to start with; read first, so that a wrong path is found out at once."""
        memory = self.recipe.memory
        if memory is None or memory.cases is None:
            return None
        return read_cases(expand_path(memory.cases, self.recipe.directory))

    # -- the loop ------------------------------------------------------------------------------------------

    def _play(self, metrics: MetricsLog, board: TensorBoardLog) -> None:
        run, unit = self.recipe.run, "env steps" if self.recipe.run.episodes is None else "game plays"
        self.reporter.phase(f"training ({unit})", self._budget(), self._done())
        while plays := self._next_plays():
            episodes = play_together(
                self._seats, plays, decide=self._decide, observer=self.learner, clock=self.clock
            )
            losses = self.learner.pop_losses()
            for episode in episodes:
                self.progress.count(episode)
                row = self._row(episode, losses)
                metrics.write(row)
                board.write(row)
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
        order = np.random.Generator(np.random.PCG64(stream)).permutation(len(self._games))
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

    def _row(self, episode: Episode, losses: dict[str, float | None]) -> dict[str, Any]:
        """One line of metrics.jsonl. There is no clock in it: equal runs give equal bytes. Games that were played
        at the same time share what is not theirs alone: env_steps, memory_size, losses."""
        counts = ReuseCounts.of(episode)
        retriever = self.reasoner.retriever
        return {
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
            **losses,
            "reuse_agent_same": counts.agent_same,
            **(dict(retriever.quantizer.metrics()) if retriever else {}),
        }

    # -- pretraining ---------------------------------------------------------------------------------------

    def _pretrain(self, metrics: MetricsLog) -> None:
        config, retriever = self.recipe.training.pretrain, self.reasoner.retriever
        if self.progress.pretrained or retriever is None:
            return
        if config.retriever is not None:
            load_retriever(retriever, expand_path(config.retriever, self.recipe.directory))
            self.progress.pretraining = {"retriever": retriever.digest()}
            return
        if not config.episodes:
            return
        experience = self._collect(config.episodes, retriever.encoder)
        self.reporter.phase("pretraining the retriever (epochs)", config.epochs)
        report = pretrain_retriever(
            retriever,
            experience,
            config,
            margin=self.recipe.training.margin,
            clip=self.recipe.training.clip,
            streams=self.streams,
            progress=lambda done, total: self.reporter.advance(),
        )
        self.progress.pretraining = asdict(report)
        self.progress.pretrained = True
        self.save(metrics)
        self._leave_if_asked()

    def _collect(self, passes: int, encoder: ContextEncoder) -> list[Experience]:
        self.reporter.phase("collecting experience (game plays)", passes * len(self._games))
        found: list[Experience] = []
        for experience in collect_experience(
            self.environments, encoder, passes=passes, seed=self.streams.seed, clock=self.clock
        ):
            found.extend(experience)
            self.reporter.advance()
            self._leave_if_asked()
        return found

    # -- checkpoints ---------------------------------------------------------------------------------------

    def save(self, metrics: MetricsLog) -> None:
        """Write a checkpoint; all that is needed to go on from here."""
        self.progress.metrics_bytes = metrics.position()
        self.progress.skipped_updates = sum(o.skipped for o in self._optimizers().values())
        self.progress.seconds.update(self.clock.seconds)
        tensors = module_tensors(agent_modules(self.reasoner))
        for name, optimizer in self._optimizers().items():
            tensors |= {f"{name}:{key}": value for key, value in optimizer.tensors().items()}
        memories = self.reasoner.retriever.memories() if self.reasoner.retriever else {}
        save_checkpoint(self.folder.checkpoints, self.progress, tensors, self.streams.state(), memories)

    def _restore(self) -> None:
        path = latest_checkpoint(self.folder.checkpoints)
        if path is None:
            return
        progress, tensors, streams = restore_agent(path, self.reasoner)
        vars(self.progress).update(vars(progress))
        self.streams.restore(streams)
        self.clock.seconds.update(progress.seconds)
        for name, optimizer in self._optimizers().items():
            prefix = f"{name}:"
            mine = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            optimizer.load_tensors(mine)
        log.info("resumed from %s", path)

    def _optimizers(self) -> dict[str, Any]:
        return {
            "agent_optimizer": self.learner.agent_optimizer,
            "retriever_optimizer": self.learner.retriever_optimizer,
        }

    def _leave_if_asked(self) -> None:
        if self.stop:
            raise Interrupted("interrupted", hint=f"continue with: cbr run --resume {self.folder.path}")
