"""Small, fully working parts for tests of the core: contexts and similarities that a reader can do by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cbr_reuse.config import MostRelevantConfig
from cbr_reuse.most_relevant import MostRelevant
from cbrcore import Build
from cbrcore.interfaces import AgentInput, PolicyOutput, RetainItem
from cbrcore.types import Action, Observation, StateGraph


class TableEncoder(nn.Module):
    """The context of an entity tuple is the sum of its entities' rows in a table (trainable)."""

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        super().__init__()
        self.names = list(table)
        self.rows = nn.Parameter(torch.tensor([list(row) for row in table.values()], dtype=torch.float32))
        self.dim = self.rows.shape[1]

    def situation(self, observation: Observation, past: Sequence[Observation]) -> StateGraph:
        return observation.graph

    def contexts_of_pairs(self, pairs: Sequence[tuple[Any, tuple[str, ...]]]) -> Tensor:
        if not pairs:
            return self.rows.new_zeros(0, self.dim)
        return torch.stack([sum(self.rows[self.names.index(name)] for name in seeds) for _, seeds in pairs])


class DenseIndex:
    """Keys are vectors; similarity = max(0, cosine)."""

    def __init__(self) -> None:
        self._keys = torch.zeros(0, 0)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Tensor) -> None:
        self._keys = torch.cat([self._keys, keys]) if len(self) else keys.clone()

    def keep(self, rows: Sequence[int]) -> None:
        self._keys = self._keys[list(rows)]

    def similarities(self, queries: Tensor) -> Tensor:
        return torch.cosine_similarity(queries[:, None], self._keys[None], dim=2).clamp(min=0)

    def keys(self) -> Tensor:
        return self._keys


class CosineQuantizer(nn.Module):
    """The key is the context itself."""

    def __init__(self) -> None:
        super().__init__()
        self.fitted: Tensor | None = None
        self.maintained = 0

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        self.fitted = contexts

    def keys(self, contexts: Tensor) -> Tensor:
        return contexts.detach()

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        return torch.cosine_similarity(contexts, keys, dim=1).clamp(min=0)

    pair_similarity = similarity

    def regularizer(self, contexts: Tensor) -> Tensor:
        return contexts.new_zeros(())

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        self.maintained += 1

    def index(self) -> DenseIndex:
        return DenseIndex()

    def metrics(self) -> Mapping[str, float]:
        return {}


class PullingQuantizer(CosineQuantizer):
    """Its regularizer pulls contexts to zero, which their cosines do not notice."""

    def __init__(self, pull: float) -> None:
        super().__init__()
        self.pull = pull

    def regularizer(self, contexts: Tensor) -> Tensor:
        return self.pull * contexts.square().sum()


class ScriptedAgent(nn.Module):
    """Prefers the named commands (logit 3 against 0); its value is a parameter. State: steps seen."""

    def __init__(self, *preferred: str, value: float = 0.0) -> None:
        super().__init__()
        self.preferred = preferred
        self.strength = nn.Parameter(torch.tensor(3.0))
        self.value = nn.Parameter(torch.tensor(value))

    def initial_state(self) -> int:
        return 0

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        return [
            PolicyOutput(
                self.strength
                * torch.tensor([float(a.text in self.preferred) for a in item.observation.admissible]),
                self.value * 1.0,
                item.state + 1,
            )
            for item in inputs
        ]


def paper_rule(**settings: bool) -> MostRelevant:
    """The reuse policy of the paper."""
    return MostRelevant(MostRelevantConfig(**settings), Build())


def observation(*commands: Action, graph: StateGraph | None = None) -> Observation:
    """An observation that offers these commands."""
    return Observation("", "", "", tuple(commands), graph or StateGraph.of([], ["room"]))


def act(template: str, *entities: str) -> Action:
    return Action.from_template(template, entities)


def item(key: Tensor, action: Action, situation: Any = None, *, retained: bool = False) -> RetainItem:
    """A rewarded step with a key, as a memory keeps it."""
    return RetainItem(key, action, 0, 1.0, situation=situation, retained=retained)
