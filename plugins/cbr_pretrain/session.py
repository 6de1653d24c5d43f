"""What `cbr pretrain` does: experience in, a trained retriever out, for any number of runs [P §5]."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.experience import PlayCount, collect_experience, collect_while_learning
from cbr_pretrain.pairs import Experience, PretrainReport, pretrain_retriever
from cbr_pretrain.retriever_file import FILE, REPORT_FILE, save_retriever
from cbrcore.config import Recipe
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError, Interrupted
from cbrcore.interfaces import Learner
from cbrcore.runs import Work, begin_records, built, built_learning, working
from cbrcore.runs.files import seal
from cbrcore.runs.folder import RunFolder

if TYPE_CHECKING:
    from cbrcore.plugins import PluginReport
    from cbrcore.runs.assemble import Parts

CBR_PARTS = ("context_encoder", "quantizer", "memory", "reuse_policy", "retain_policy")


def pretrain(
    recipe: Recipe, collector: Recipe | None, plugins: PluginReport, out: Path | None, *, overwrite: bool
) -> tuple[PretrainReport, Path]:
    """Pretrain the recipe's retriever in `out`, or in a new folder under runs/.

    Args:
        collector: the recipe of the plain agent that collects the experience; None for a uniform random one.

    Raises:
        CbrError: there is no retriever, or nothing was rewarded while collecting.
        Interrupted: the user stopped it; nothing is kept.
    """
    config = pretraining_of(recipe)
    folder = RunFolder.create(f"{recipe.name}-retriever", out, overwrite=overwrite)
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(working(recipe, plugins, folder))
        agent = None
        if collector is not None:
            agent = Collector(collector, built(collector, plugins), built_learning(collector, plugins).learner)
            stack.callback(agent.parts.close)
        folder.set_aside()

        def begin() -> None:
            begin_records(work, plugins)
            folder.stands()

        return RetrieverMaking(work, config, agent).run(begin), folder.path


class Collector:
    """A plain agent that collects experience while it learns."""

    def __init__(self, recipe: Recipe, parts: Parts, learner: Learner) -> None:
        self.recipe = recipe
        self.parts = parts
        self.learner = learner

    def __repr__(self) -> str:
        return f"Collector({self.recipe.agent.use})"


class RetrieverMaking:
    """Pretrains the retriever of a recipe in a folder.

    Args:
        work: a recipe with the four CBR parts, built.
        config: how.
        collector: None for a uniform random agent.
    """

    def __init__(self, work: Work, config: PretrainConfig, collector: Collector | None) -> None:
        self.work = work
        self.config = config
        self.collector = collector
        self.count = PlayCount()

    def run(self, begin: Callable[[], None]) -> PretrainReport:
        """Collect, train, write; see `pretrain`.

        Args:
            begin: called when there is something to write.
        """
        retriever = self.work.parts.reasoner.retriever
        assert retriever is not None
        experience = [item for play in self._plays(retriever) for item in play]
        if not any(item.rewarded for item in experience):
            raise CbrError(
                "no action was rewarded while collecting experience: there is nothing to learn from",
                hint="raise training.pretrain.episodes, or take another --collector",
            )
        training = self.work.recipe.training
        self.work.reporter.phase("pretraining the retriever (epochs)", self.config.epochs)
        report = pretrain_retriever(
            retriever,
            experience,
            self.config,
            margin=training.margin,
            clip=training.clip,
            streams=self.work.parts.streams,
            progress=lambda done, total: self._advance(),
        )
        begin()
        save_retriever(retriever, self.work.folder.path)
        self.work.folder.write_json(REPORT_FILE, self._facts(report, retriever))
        seal(self.work.folder.path, FILE, REPORT_FILE)
        return report

    def _plays(self, retriever: Retriever) -> Iterator[list[Experience]]:
        """The experience of each game play."""
        parts, passes = self.work.parts, self.config.episodes
        games = parts.environment.games("train")
        self.work.reporter.phase("collecting experience (game plays)", passes * len(games))
        if self.collector is None:
            plays = collect_experience(
                parts.environments,
                retriever.encoder,
                passes=passes,
                seed=self.work.recipe.seed,
                clock=parts.clock,
                count=self.count,
            )
        else:
            plays = collect_while_learning(
                parts.environments,
                retriever.encoder,
                self.collector.parts.reasoner,
                self.collector.recipe.training,
                self.collector.learner,
                passes=passes,
                streams=self.collector.parts.streams,
                clock=parts.clock,
                count=self.count,
            )
        for play in plays:
            yield play
            self._advance()

    def _advance(self) -> None:
        self.work.reporter.advance()
        if self.work.stop:
            raise Interrupted("interrupted; nothing is kept", hint="start it again with the same command")

    def _facts(self, report: PretrainReport, retriever: Retriever) -> dict[str, Any]:
        return {
            "schema": 1,
            "collector": "uniform random" if self.collector is None else self.collector.recipe.agent.use,
            "seed": self.work.recipe.seed,
            "episodes": self.config.episodes,
            "retriever": retriever.digest(),
            **asdict(report),
            **asdict(self.count),
        }


def pretraining_of(recipe: Recipe) -> PretrainConfig:
    """How the recipe pretrains; CbrError if it has no retriever, or no experience to pretrain it with."""
    part = recipe.training.pretrain
    if not recipe.uses_cases:
        raise CbrError(f"{recipe.name} has no retriever", hint="take a recipe with context_encoder and quantizer")
    if part is None or not isinstance(part.settings, PretrainConfig):
        raise CbrError("training.pretrain is of another kind", hint="leave 'use' out of training.pretrain")
    if not part.settings.episodes:
        raise CbrError("training.pretrain.episodes is 0", hint="--set training.pretrain.episodes=10")
    return part.settings


def collector_overrides(collector: str, sets: Sequence[str] = ()) -> list[str]:
    """What turns a recipe into that of the plain agent that collects: `collector` is a component's name, or its
    section as in a recipe. Of the recipe's own `sets`, those of parts that it has not are left out."""
    agent = collector if collector.lstrip().startswith("{") else f"{{use: {collector}}}"
    kept = [each for each in sets if re.split("[.=]", each.strip())[0].strip() not in ("agent", *CBR_PARTS)]
    return [*kept, f"agent={agent}", *(f"{part}=null" for part in CBR_PARTS), "run.num_envs=1"]
