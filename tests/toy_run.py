"""A whole run on the toy game, for tests of training: small enough to be compared byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from parts import CosineQuantizer, DenseIndex, ScriptedAgent, TableEncoder, paper_rule
from toy import GAMES, PLACES, ToyEnvironment

from cbr_a2c.learner import A2cLearner
from cbr_memory.config import CaseMemoryConfig
from cbr_memory.memory import case_memory
from cbr_pretrain.config import PretrainConfig
from cbr_pretrain.contrastive import ContrastivePretraining
from cbrcore.config import (
    EvaluationConfig,
    NoSettings,
    Part,
    Recipe,
    RunConfig,
    TrainingConfig,
)
from cbrcore.console import StopRequest
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import Interrupted
from cbrcore.interfaces import Build, Stopwatch
from cbrcore.rng import Streams
from cbrcore.runs import Work, carry_out, evaluation
from cbrcore.runs.assemble import Learning, Parts
from cbrcore.runs.checkpoint import latest_checkpoint, restore_agent
from cbrcore.runs.folder import METRICS_FILE, RunFolder

THINGS = [thing for goals in GAMES.values() for thing in goals]


class SilentReporter:
    def phase(self, title: str, total: int, done: int = 0) -> None: ...
    def advance(self, note: str = "") -> None: ...


class StopAfter(SilentReporter):
    """Asks the run to stop after so many reported steps."""

    def __init__(self, stop: StopRequest, count: int) -> None:
        self.stop, self.count = stop, count

    def advance(self, note: str = "") -> None:
        self.count -= 1
        if self.count == 0:
            self.stop.requested = True


class LastOne:
    def select(self, buffer, rng):
        return buffer[-1:]


def recipe(memory: dict | None = None, *, pretrain: int = 2, **run) -> Recipe:
    part = Part(use="test/part", settings=NoSettings())
    return Recipe(
        name="toy",
        seed=5,
        environment=part,
        text_encoder=part,
        agent=part,
        learner=part,
        memory=Part(use="test/memory", settings=CaseMemoryConfig(**(memory or {}))),
        training=TrainingConfig(
            agent_learning_rate=0.01,
            retriever_learning_rate=0.01,
            update_every=4,
            pretrain=Part(use="test/pretrain", settings=PretrainConfig(episodes=pretrain, epochs=3, batch_size=8)),
        ),
        evaluation=EvaluationConfig(passes=2, random_passes=2),
        run=RunConfig(**({"episodes": 6} | run)),
    )


def parts(num_envs: int = 1, memory: dict | None = None) -> Parts:
    generator = torch.Generator().manual_seed(0)
    names = [*THINGS, *PLACES, "player"]
    table = {name: torch.randn(8, generator=generator).tolist() for name in names}
    clock, options = Stopwatch(), CaseMemoryConfig(**(memory or {}))
    kept = case_memory(options, Build(index=DenseIndex, identity="toy"))
    retriever = Retriever(
        TableEncoder(table), CosineQuantizer(), kept, identity="toy", refresh=options.refresh, clock=clock
    )
    agent = ScriptedAgent("look")
    return Parts(
        tuple(ToyEnvironment() for _ in range(num_envs)),
        CaseBasedReasoner(agent, retriever, LastOne(), paper_rule(), clock=clock),
        Streams(5),
        clock,
        "cpu",
    )


class Experiment:
    """What `cbr run` does, with the toy's parts."""

    def __init__(self, recipe: Recipe, parts: Parts, folder: RunFolder, reporter, stop: StopRequest) -> None:
        self.work = Work(recipe, folder, parts, reporter, stop)
        self.parts = parts

    def run(self) -> dict:
        pretraining = ContrastivePretraining(self.work.recipe.training.pretrain.settings, Build())
        return carry_out(self.work, Learning(A2cLearner(), pretraining))

    def load_agent(self) -> None:
        restore_agent(latest_checkpoint(self.work.folder.checkpoints), self.parts.reasoner, {})

    def evaluate(self, splits) -> dict:
        return evaluation(self.work, splits)


def run(path: Path, stop_after: int = 0, **settings) -> Experiment:
    """Train and evaluate in `path`, resuming what is there; `stop_after` interrupts after so many reports."""
    stop = StopRequest()
    existed = (path / "recipe.yaml").exists()
    folder = RunFolder.resume(path) if existed else RunFolder.create("toy", path)
    folder.write_text("recipe.yaml", "name: toy\n")
    reporter = StopAfter(stop, stop_after) if stop_after else SilentReporter()
    experiment = Experiment(
        recipe(**settings), parts(settings.get("num_envs", 1), settings.get("memory")), folder, reporter, stop
    )
    try:
        experiment.run()
    finally:
        folder.close()
    return experiment


def check_resuming(folder: Path, stop_after: int, **settings) -> None:
    """An interrupted and resumed run equals one which is neither, in what it leaves and in its weights."""
    settings = {"checkpoint_every": 2, **settings}
    whole = run(folder / "whole", **settings)
    with pytest.raises(Interrupted, match=r"cbr run --resume|cbr evaluate"):
        run(folder / "parts", stop_after=stop_after, **settings)
    resumed = weights(run(folder / "parts", **settings))
    for name in (METRICS_FILE, "results.json", "memory/cases.jsonl"):
        assert (folder / "parts" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    assert all(torch.equal(value, resumed[name]) for name, value in weights(whole).items())


def weights(experiment: Experiment) -> dict[str, torch.Tensor]:
    reasoner = experiment.parts.reasoner
    return {
        **reasoner.agent.state_dict(),
        **{f"encoder.{k}": v.clone() for k, v in reasoner.retriever.encoder.state_dict().items()},
    }
