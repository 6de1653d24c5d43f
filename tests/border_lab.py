"""A loose plugin with a sound part of every kind; a test spoils one of them by a few lines at its end."""

from __future__ import annotations

from pathlib import Path

PLUGIN = """
from collections.abc import Mapping

import torch
from parts import DenseIndex
from toy import ToyEnvironment

from cbrcore import hookimpl
from cbrcore.interfaces import PolicyOutput
from cbrcore.testing import WordHashEncoder
from cbrcore.types import Action, Ending, Observation, StateGraph, StepResult
from dataclasses import replace


def offer(kind, **parts):
    def register(registry):
        for name, factory in parts.items():
            registry.add(name, factory=f"{__name__}:{factory}")
    register.__name__ = kind
    return hookimpl(register)


register_environments = offer("register_environments", toy="Toy")
register_text_encoders = offer("register_text_encoders", words="Words")
register_context_encoders = offer("register_context_encoders", mean="Mean")
register_quantizers = offer("register_quantizers", cosine="Cosine")
register_retain_policies = offer("register_retain_policies", all="All")
register_agents = offer("register_agents", linear="Linear")
register_learners = offer("register_learners", none="Nothing")


class Toy(ToyEnvironment):
    def __init__(self, config, build):
        super().__init__()


class Words(WordHashEncoder):
    identity = "words"


class Mean(torch.nn.Linear):
    def __init__(self, config, build):
        super().__init__(24, 24)
        self.dim, self.words = 24, build.text_encoder

    def situation(self, observation, past):
        return observation.graph

    def contexts_of_pairs(self, pairs):
        means = [self.words.encode(seeds).mean(dim=0) for _, seeds in pairs]
        return self(torch.stack(means) if means else torch.zeros(0, 24))


class Cosine(torch.nn.Module):
    def __init__(self, config, build):
        super().__init__()

    def fit(self, contexts, generator): ...
    def maintain(self, contexts, generator): ...

    def keys(self, contexts):
        return contexts.detach()

    def similarity(self, contexts, keys):
        return torch.cosine_similarity(contexts, keys, dim=1).clamp(0, 1)

    pair_similarity = similarity

    def regularizer(self, contexts):
        return contexts.new_zeros(())

    def index(self):
        return Index()

    def metrics(self):
        return {"usage": 0.5}


class Index(DenseIndex): ...


class All:
    def __init__(self, config, build): ...

    def select(self, buffer, rng):
        return list(buffer)


class Linear(torch.nn.Linear):
    def __init__(self, config, build):
        super().__init__(24, 1)
        self.words = build.text_encoder

    def initial_state(self):
        return None

    def policy(self, inputs):
        return [
            PolicyOutput(
                self(self.words.encode([action.text for action in item.observation.admissible])).squeeze(-1),
                self(self.words.encode([item.observation.text])).squeeze(),
            )
            for item in inputs
        ]


class Nothing:
    skipped = 0

    def __init__(self, config, build): ...
    def begin(self, players, training, streams, clock): ...
    def took_step(self, seat, transition): ...
    def round_of_steps_done(self): ...
    def load_tensors(self, tensors): ...

    def pop_losses(self):
        return {"loss_policy": None}

    def tensors(self):
        return {}


"""
RECIPE = """\
schema: 1
name: lab
environment: {use: toylab/toy}
text_encoder: {use: toylab/words}
context_encoder: {use: toylab/mean}
quantizer: {use: toylab/cosine}
memory: {threshold: 0.0}
retain_policy: {use: toylab/all}
agent: {use: toylab/linear}
recorders: []
training:
  update_every: 4
  agent_learning_rate: 0.01
  retriever_learning_rate: 0.01
  pretrain: {episodes: 2, epochs: 1}
evaluation: {passes: 1, modes: [sampled]}
run: {episodes: 4, checkpoint_every: 4}
"""


def write_lab(folder: Path, spoiled: str = "", recipe: str = RECIPE) -> tuple[Path, Path]:
    """(the recipe, the plugin file) in the folder."""
    (folder / "toylab.py").write_text(PLUGIN + spoiled + "\n", encoding="utf-8")
    (folder / "lab.yaml").write_text(recipe)
    return folder / "lab.yaml", folder / "toylab.py"
