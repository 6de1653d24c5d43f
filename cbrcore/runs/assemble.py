"""Recipe + registry -> parts that fit together. The one place where parts meet."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from cbrcore.config import Part, Recipe, cache_dir, nested_parts
from cbrcore.cycle.reasoner import CaseBasedReasoner
from cbrcore.cycle.retriever import Retriever
from cbrcore.errors import CbrError
from cbrcore.interfaces import (
    Build,
    Environment,
    KeepsState,
    Learner,
    Pretraining,
    Recorder,
    RevisingAgent,
    Stopwatch,
    TellsPlaces,
)
from cbrcore.recipe.model import BORDER, DEFAULTS, ISOLATION
from cbrcore.registry import Registry
from cbrcore.rng import Streams, derive_seed


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

    def keepers(self) -> dict[str, KeepsState]:
        """Parts that know something beside tensors and cases, by name."""
        parts: dict[str, object] = {"reuse_policy": self.reasoner.reuse_policy, "environment": self.environment}
        return {name: part for name, part in parts.items() if isinstance(part, KeepsState)}

    def close(self) -> None:
        """Release every engine; safe to call twice."""
        for environment in self.environments:
            environment.close()


@dataclass(frozen=True)
class Learning:
    """What trains the parts: nothing that only looks at a run needs it."""

    learner: Learner
    pretraining: Pretraining | None = None
    recorders: tuple[tuple[str, Recorder], ...] = ()


def assemble(recipe: Recipe, registry: Registry) -> Parts:
    """Build every part of the recipe.

    Each part's initial weights come from a random stream of its own: leaving one part out, or adding
    one, does not change the others.

    Raises:
        CbrError: a part cannot be built (missing games, model, module).
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # faster for small networks, and figures do not depend on the machine's cores
    build, clock = _build(recipe), Stopwatch()
    environments = tuple(_environment(recipe, registry, build) for _ in range(recipe.run.num_envs))
    for split in ("train", *recipe.evaluation.splits):
        environments[0].games(split)  # a split without games is found out before anything is trained
    if isinstance(environments[0], TellsPlaces):
        build = replace(build, places=environments[0].places)
    build = replace(build, text_encoder=_part(registry, "text_encoder", recipe.text_encoder, build))
    retriever = _retriever(recipe, registry, build, clock)
    reuse = _part(registry, "reuse_policy", recipe.reuse_policy, build)
    retain = _part(registry, "retain_policy", recipe.retain_policy, build)
    agent = _part(registry, "agent", recipe.agent, build)
    agent.train(False)
    if isinstance(agent, RevisingAgent):
        if retriever is None:
            raise CbrError(f"{recipe.agent.use} weighs what a case memory offers", hint="add 'memory: {}'")
        if recipe.reuse_policy and recipe.reuse_policy.settings.own_choice:
            told = f"{recipe.agent.use} chooses itself, and {recipe.reuse_policy.use} would have no say"
            raise CbrError(told, hint=f"write 'reuse_policy: {{use: {DEFAULTS['reuse_policy']}}}'")
    reasoner = CaseBasedReasoner(agent, retriever, retain, reuse, gamma=recipe.training.gamma, clock=clock)
    return Parts(environments, reasoner, Streams(recipe.seed), clock, build.device)


def _environment(recipe: Recipe, registry: Registry, build: Build) -> Environment:
    if recipe.run.isolate:
        isolated = ISOLATION.load_factory().isolated(recipe, registry, build)
        return cast(Environment, BORDER.load_factory().guarded(isolated, "environment", recipe.environment.use))
    return cast(Environment, _part(registry, "environment", recipe.environment, build))


def _retriever(recipe: Recipe, registry: Registry, build: Build, clock: Stopwatch) -> Retriever | None:
    if recipe.memory is None or recipe.context_encoder is None or recipe.quantizer is None:
        return None
    encoder = _part(registry, "context_encoder", recipe.context_encoder, build)
    encoder.train(False)
    known = replace(build, context_dim=encoder.dim, context_encoder=encoder)
    quantizer = _part(registry, "quantizer", recipe.quantizer, known)
    quantizer.train(False)
    assert build.text_encoder is not None
    makers = (recipe.context_encoder, recipe.quantizer)
    described = [f"{part.use} {part.settings.model_dump(mode='json')}" for part in makers]
    identity = " | ".join([build.text_encoder.identity, *described])
    memory = _part(registry, "memory", recipe.memory, replace(build, index=quantizer.index, identity=identity))
    refresh = recipe.memory.settings.refresh
    return Retriever(encoder, quantizer, memory, identity=identity, refresh=refresh, clock=clock)


def assemble_learning(recipe: Recipe, registry: Registry) -> Learning:
    """Build learner, pretraining and recorders of the recipe.

    Raises:
        CbrError: one cannot be built (a missing module).
    """
    build = _build(recipe)
    return Learning(
        _part(registry, "learner", recipe.learner, build),
        _part(registry, "pretraining", recipe.training.pretrain, build, "training.pretrain"),
        tuple((part.use, _part(registry, "recorder", part, build)) for part in recipe.recorders),
    )


def _build(recipe: Recipe) -> Build:
    """What every factory may use. CbrError if "cuda" is asked for and missing."""
    device, available = recipe.run.device, torch.cuda.is_available()
    if device == "cuda" and not available:
        raise CbrError("no CUDA device is available here", hint="use --device cpu or --device auto")
    if device == "auto":
        device = "cuda" if available else "cpu"
    return Build(device, recipe.seed, recipe.directory, cache_dir())


def _part(registry: Registry, kind: str, part: Part | None, build: Build, path: str = "") -> Any:
    """The part at `path`: its kind, and for a part within a part the way to it, as in "agent.agent"."""
    if part is None:
        return None
    path = path or kind

    def make(setting: str, build: Build) -> Any:
        inner = getattr(part.settings, setting)
        return _part(registry, nested_parts(part.settings)[setting].kind, inner, build, f"{path}.{setting}")

    component = registry.find(kind, part.use)
    factory = component.load_factory()
    border = BORDER.load_factory()
    with torch.random.fork_rng(), border.making(kind, component.qualified):
        torch.manual_seed(derive_seed(build.seed, f"init:{path}"))
        made = factory(part.settings, replace(build, make=make))
    return border.guarded(made, kind, component.qualified)
