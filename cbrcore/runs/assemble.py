"""Recipe + registry -> parts that fit together. The one place where parts meet."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cbrcore.config import Part, Recipe, nested_parts
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import (
    Build,
    Environment,
    Learner,
    Pretraining,
    Recorder,
    RevisingAgent,
    Stopwatch,
)
from cbrcore.registry import Registry
from cbrcore.rng import Streams, derive_seed

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """A recipe's parts, built and connected.

    Attributes:
        environments: alike, one for each game that is trained on at the same time.
    """

    environments: tuple[Environment, ...]
    reasoner: CaseBasedReasoner
    streams: Streams
    clock: Stopwatch
    device: str

    @property
    def environment(self) -> Environment:
        """The one that is asked for facts and used to evaluate."""
        return self.environments[0]

    def close(self) -> None:
        """Release every engine; safe to call twice."""
        for environment in self.environments:
            environment.close()


def assemble(recipe: Recipe, registry: Registry, *, recipe_dir: Path) -> Parts:
    """Build every part of the recipe.

    Each part's initial weights come from a random stream of its own: leaving one part out, or adding
    one, does not change the others.

    Raises:
        CbrError: a part cannot be built (missing games, model, module).
    """
    device = choose_device(recipe.run.device)
    clock = Stopwatch()
    build = Build(device=device, seed=recipe.seed, recipe_dir=recipe_dir, cache_dir=cache_dir())
    environments = tuple(
        _build(registry, "environment", recipe.environment, build) for _ in range(recipe.run.num_envs)
    )
    for split in ("train", *recipe.evaluation.splits):
        environments[0].games(split)  # a split without games is found out before anything is trained
    build = replace(build, text_encoder=_build(registry, "text_encoder", recipe.text_encoder, build))
    retriever = _retriever(recipe, registry, build, clock)
    retain_policy = (
        _build(registry, "retain_policy", recipe.retain_policy, build) if recipe.retain_policy else None
    )
    agent = _build(registry, "agent", recipe.agent, build).train(False)
    if isinstance(agent, RevisingAgent) and retriever is None:
        raise CbrError(
            f"{recipe.agent.use} weighs what a case memory offers", hint="add 'memory: {}' to the recipe"
        )
    reasoner = CaseBasedReasoner(
        agent,
        retriever,
        retain_policy,
        gamma=recipe.training.gamma,
        retry_failed=recipe.memory.settings.retry_failed if recipe.memory else True,
        clock=clock,
    )
    return Parts(environments, reasoner, Streams(recipe.seed), clock, device)


def _retriever(recipe: Recipe, registry: Registry, build: Build, clock: Stopwatch) -> Retriever | None:
    if recipe.memory is None or recipe.context_encoder is None or recipe.quantizer is None:
        return None
    encoder = _build(registry, "context_encoder", recipe.context_encoder, build).train(False)
    quantizer = _build(registry, "quantizer", recipe.quantizer, replace(build, context_dim=encoder.dim)).train(
        False
    )
    assert build.text_encoder is not None
    identity = " | ".join(
        [build.text_encoder.identity, *map(_describe, (recipe.context_encoder, recipe.quantizer))]
    )
    memory = _build(registry, "memory", recipe.memory, replace(build, index=quantizer.index, identity=identity))
    return Retriever(
        encoder, quantizer, memory, identity=identity, refresh=recipe.memory.settings.refresh, clock=clock
    )


@dataclass(frozen=True)
class Learning:
    """What trains the parts: nothing that only looks at a run needs it."""

    learner: Learner
    pretraining: Pretraining | None = None
    recorders: tuple[tuple[str, Recorder], ...] = ()


def assemble_learning(recipe: Recipe, registry: Registry, *, recipe_dir: Path) -> Learning:
    """Build learner, pretraining and recorders of the recipe.

    Raises:
        CbrError: one cannot be built (a missing module).
    """
    build = Build(choose_device(recipe.run.device), recipe.seed, recipe_dir, cache_dir())
    pretrain = recipe.training.pretrain
    return Learning(
        _build(registry, "learner", recipe.learner, build),
        _build(registry, "pretraining", pretrain, build, "training.pretrain") if pretrain else None,
        tuple((part.use, _build(registry, "recorder", part, build)) for part in recipe.recorders),
    )


def _build(registry: Registry, kind: str, part: Part, build: Build, path: str = "") -> Any:
    """The part at `path`: its kind, and for a part within a part the way to it, as in "agent.agent"."""
    path = path or kind

    def make(setting: str, build: Build) -> Any:
        inner = getattr(part.settings, setting)
        return _build(registry, nested_parts(part.settings)[setting].kind, inner, build, f"{path}.{setting}")

    factory = registry.find(kind, part.use).load_factory()
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(build.seed, f"init:{path}"))
        return factory(part.settings, replace(build, make=make))


def _describe(part: Part) -> str:
    settings = part.settings.model_dump(mode="json")
    return f"{part.use} {settings}"


def choose_device(wanted: str) -> str:
    """ "auto" takes a CUDA device if there is one. CbrError if "cuda" is asked for and missing."""
    available = torch.cuda.is_available()
    if wanted == "auto":
        return "cuda" if available else "cpu"
    if wanted == "cuda" and not available:
        raise CbrError("no CUDA device is available here", hint="use --device cpu or --device auto")
    return wanted


def cache_dir() -> Path:
    """CBR_CACHE, or cbr/ in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CBR_CACHE") or Path(base) / "cbr").expanduser()
