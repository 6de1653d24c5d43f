"""What `cbr pretrain` does: experience in, a trained retriever out, for any number of runs [P §5]."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cbr_pretrain.experience import collect_experience, collect_while_learning
from cbr_pretrain.pairs import Experience, PretrainReport, pretrain_retriever
from cbr_pretrain.retriever_file import save_retriever
from cbrcore.config import Recipe
from cbrcore.console import Reporter, StopRequest
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError, Interrupted
from cbrcore.interfaces import Learner
from cbrcore.plugins import PluginReport
from cbrcore.runs import begin_records, working
from cbrcore.runs.assemble import Parts, assemble, assemble_learning
from cbrcore.runs.folder import RunFolder

log = logging.getLogger(__name__)

REPORT_FILE = "pretraining.json"


class RetrieverMaking:
    """Pretrains the retriever of a recipe in a folder.

    Args:
        recipe: with the four CBR parts.
        parts: built from it.
        collector: the recipe of the plain agent that collects experience, and its parts; None for a uniform
            random agent.
    """

    def __init__(
        self,
        recipe: Recipe,
        parts: Parts,
        collector: tuple[Recipe, Parts, Learner] | None,
        folder: RunFolder,
        reporter: Reporter,
        stop: StopRequest,
    ) -> None:
        self.recipe = recipe
        self.parts = parts
        self.collector = collector
        self.folder = folder
        self.reporter = reporter
        self.stop = stop

    def run(self) -> PretrainReport:
        """Collect, train, write.

        Raises:
            CbrError: nothing was rewarded while collecting.
            Interrupted: the user stopped it; nothing is kept.
        """
        retriever = self.parts.reasoner.retriever
        assert retriever is not None
        experience = self._collect(retriever)
        if not any(item.rewarded for item in experience):
            raise CbrError(
                "no action was rewarded while collecting experience: there is nothing to learn from",
                hint="raise training.pretrain.episodes, or take another --collector",
            )
        config, training = self.recipe.training.pretrain, self.recipe.training
        self.reporter.phase("pretraining the retriever (epochs)", config.epochs)
        report = pretrain_retriever(
            retriever,
            experience,
            config,
            margin=training.margin,
            clip=training.clip,
            streams=self.parts.streams,
            progress=lambda done, total: self._advance(),
        )
        save_retriever(retriever, self.folder.path)
        self.folder.write_json(REPORT_FILE, self._facts(report, retriever))
        return report

    def _collect(self, retriever: Retriever) -> list[Experience]:
        passes, clock = self.recipe.training.pretrain.episodes, self.parts.clock
        environments = self.parts.environments
        self.reporter.phase("collecting experience (game plays)", passes * len(environments[0].games("train")))
        if self.collector is None:
            plays = collect_experience(
                environments, retriever.encoder, passes=passes, seed=self.recipe.seed, clock=clock
            )
        else:
            recipe, parts, learner = self.collector
            plays = collect_while_learning(
                environments,
                retriever.encoder,
                parts.reasoner,
                recipe.training,
                learner,
                passes=passes,
                streams=parts.streams,
                clock=clock,
            )
        found: list[Experience] = []
        for experience in plays:
            found.extend(experience)
            self._advance()
        return found

    def _advance(self) -> None:
        self.reporter.advance()
        if self.stop:
            raise Interrupted("interrupted; nothing is kept", hint="start it again: cbr pretrain")

    def _facts(self, report: PretrainReport, retriever: Retriever) -> dict[str, Any]:
        return {
            "schema": 1,
            "collector": "uniform random" if self.collector is None else self.collector[0].agent.use,
            "seed": self.recipe.seed,
            "episodes": self.recipe.training.pretrain.episodes,
            "retriever": retriever.digest(),
            **asdict(report),
        }


def pretrain(
    recipe: Recipe, collector: Recipe | None, plugins: PluginReport, out: Path | None, *, overwrite: bool = False
) -> tuple[PretrainReport, Path]:
    """Pretrain the recipe's retriever in `out`, or in a new folder under runs/.

    Args:
        collector: the recipe of the plain agent that collects the experience; None for a uniform random one.
    """
    check_pretrainable(recipe)
    folder = RunFolder.create(f"{recipe.name}-retriever", out, overwrite=overwrite)
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(working(recipe, plugins, folder))
        agent = None
        if collector is not None:
            own = assemble(collector, plugins.registry, recipe_dir=collector.directory)
            learning = assemble_learning(collector, plugins.registry, recipe_dir=collector.directory)
            agent = collector, own, learning.learner
            stack.callback(agent[1].close)
        begin_records(work, plugins)
        made = RetrieverMaking(recipe, work.parts, agent, folder, work.reporter, work.stop)
        return made.run(), folder.path


def check_pretrainable(recipe: Recipe) -> None:
    """CbrError if the recipe has no retriever to pretrain, or no experience to pretrain it with."""
    if not recipe.uses_cases:
        raise CbrError(f"{recipe.name} has no retriever", hint="take a recipe with context_encoder and quantizer")
    if not recipe.training.pretrain.episodes:
        raise CbrError("training.pretrain.episodes is 0", hint="--set training.pretrain.episodes=10")


def collector_overrides(collector: str) -> list[str]:
    """What turns a recipe into that of the plain agent that collects: `collector` is a component's name, or its
    section as in a recipe."""
    agent = collector if collector.lstrip().startswith("{") else f"{{use: {collector}}}"
    without = [f"{part}=null" for part in ("context_encoder", "quantizer", "memory", "retain_policy")]
    return [f"agent={agent}", *without, "run.num_envs=1"]
