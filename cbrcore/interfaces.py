"""The contracts of the parts, as Protocols. A part needs no base class; it needs these methods.

Shapes in the docstrings: n = number of items, d = width of a context, A = number of admissible actions.
Importing this module does not import torch: tensors appear in annotations only.

Every part is built by its factory as ``factory(config, build)``: `config` is its own settings object,
whole, and `build` (a `Build`) is what it may use from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cbrcore.types import Action, Candidate, EntityTuple, Observation, StepResult

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

Situation = Any
"""What a context encoder keeps of an observation; hashable (the state graph for graph encoders)."""

AgentState = Any
"""An agent's recurrent memory within an episode; None for agents without one."""


@dataclass(frozen=True)
class Build:
    """What a factory may use besides its own settings.

    Attributes:
        device: "cpu" or "cuda"; where tensors and modules live.
        seed: the run's seed; derive generators from it with `cbrcore.rng.Streams`, by name.
        recipe_dir: relative paths in settings are relative to it.
        cache_dir: for files that can be made again (compiled games, encoded texts).
        text_encoder: the recipe's text encoder; None while that itself is built.
        context_dim: d, known once the context encoder is built; 0 before.
    """

    device: str = "cpu"
    seed: int = 0
    recipe_dir: Path = field(default_factory=Path.cwd)
    cache_dir: Path = field(default_factory=lambda: Path.home() / ".cache" / "cbr")
    text_encoder: TextEncoder | None = None
    context_dim: int = 0


@runtime_checkable
class Environment(Protocol):
    """A family of text games in named splits; one game is played at a time.

    `handicaps` names everything that makes the task easier than the bare text game (ground-truth
    graph, filtered commands ...); it is copied into the results.
    """

    handicaps: Mapping[str, Any]

    def splits(self) -> tuple[str, ...]:
        """Names of the splits; "train" is one of them."""
        ...

    def games(self, split: str) -> tuple[str, ...]:
        """Names of the split's games, in a fixed order. CbrError for an unknown split."""
        ...

    def game_info(self, game: str) -> Mapping[str, Any]:
        """JSON-able facts about a game for the records: content hash, max score, optimal steps if known."""
        ...

    def reset(self, game: str, seed: int) -> Observation:
        """Start `game` anew."""
        ...

    def step(self, action: Action) -> StepResult:
        """Execute an action. The reward is the change of the score."""
        ...

    def close(self) -> None:
        """Release engines and child processes; safe to call twice."""
        ...


@runtime_checkable
class ConcurrentEnvironment(Environment, Protocol):
    """An environment whose engine works in a process of its own: `step` is `send`, then `receive`.

    Between the two other engines can be given work (`run.num_envs`).
    """

    def send(self, action: Action) -> None:
        """Begin to execute an action."""
        ...

    def receive(self) -> StepResult:
        """Wait for what comes of it; what `step` would return."""
        ...


@runtime_checkable
class TextEncoder(Protocol):
    """A frozen encoder of texts. `identity` changes whenever the vectors would."""

    dim: int
    identity: str

    def encode(self, texts: Sequence[str]) -> Tensor:
        """[n, dim] float32 on the build's device, one row per text; no gradient."""
        ...


class Trainable(Protocol):
    """The part of torch.nn.Module that the trainer and the checkpoints use."""

    def parameters(self) -> Iterable[torch.nn.Parameter]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> Any: ...
    def train(self, mode: bool = True) -> Any: ...  # noqa: FBT001 (torch's own signature)


@runtime_checkable
class ContextEncoder(Trainable, Protocol):
    """context(s_t, a_t): a continuous vector for the portion of the state relevant to an action [P §4.1]."""

    dim: int

    def situation(self, observation: Observation, past: Sequence[Observation]) -> Situation:
        """What this encoder needs of the state, hashable. `past` holds the episode's earlier observations."""
        ...

    def contexts_of_pairs(self, pairs: Sequence[tuple[Situation, EntityTuple]]) -> Tensor:
        """[n, d]: one context per pair of state and seeds. A row depends on its own pair alone."""
        ...


@runtime_checkable
class KeyIndex(Protocol):
    """The keys of a memory, row by row, and their similarity to queries.

    Row numbers are positions: `keep` renumbers. No gradient flows through an index.
    """

    def __len__(self) -> int: ...

    def add(self, keys: Tensor) -> None:
        """Append keys [n, ...]."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        ...

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, len(self)] float32 in [0, 1]; -inf where an approximate index did not look."""
        ...

    def keys(self) -> Tensor:
        """All keys [len(self), ...] as stored."""
        ...


@runtime_checkable
class Quantizer(Trainable, Protocol):
    """phi: context -> key, and the similarity of keys [P §4.2]."""

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Initialise from data [n, d] (k-means for codebooks); a fixed quantizer does nothing."""
        ...

    def keys(self, contexts: Tensor) -> Tensor:
        """[n, d] -> keys [n, ...]; no gradient."""
        ...

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n] in [0, 1]: context i against key i. Gradients reach encoder and quantizer; keys are constants."""
        ...

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n] in [0, 1]: context i against context i, gradients to both sides (pretraining)."""
        ...

    def regularizer(self, contexts: Tensor) -> Tensor:
        """Scalar loss that keeps the quantizer close to its data; 0 for fixed quantizers."""
        ...

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Upkeep after a training update, given the update's contexts [n, d] (dead-code revival)."""
        ...

    def index(self) -> KeyIndex:
        """A new, empty index for this quantizer's keys."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Figures worth logging: code usage, perplexity."""
        ...


@dataclass(frozen=True)
class RetainItem:
    """One executed action of the running episode, as retain policies see it.

    `key` is None for an action without seeds; such items cannot be stored. `td_error` is None until
    the next state's value is known.
    """

    key: Tensor | None
    action: Action
    step: int
    reward: float
    td_error: float | None = None


@runtime_checkable
class RetainPolicy(Protocol):
    """retain(T): which of the episode's executed actions enter the memory when r_t > 0 [P §3, App. E]."""

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """`buffer` is the episode so far, oldest first; the last item is the rewarded one."""
        ...


@dataclass(frozen=True)
class AgentInput:
    """One step for an agent: what it sees, its recurrent state before, and what the reasoner offers."""

    observation: Observation
    state: AgentState = None
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class PolicyOutput:
    """logits [A] over the admissible actions, value [] = V(s_t), state: recurrent memory for the next step."""

    logits: Tensor
    value: Tensor
    state: AgentState = None


@runtime_checkable
class NeuralAgent(Trainable, Protocol):
    """pi(a|s): the on-policy agent that is asked when nothing can be reused. It may have no parameters.

    An agent that is told more than the bare text game tells (a hand-written knowledge graph ...) names it in
    an attribute `handicaps`, as an environment does; it is copied into the results.
    """

    def initial_state(self) -> AgentState:
        """The recurrent memory at the start of an episode."""
        ...

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """One output per input, batched. With gradients enabled they reach the agent's parameters,
        but not the recurrent state given in the input (it is a constant)."""
        ...


class Launcher(Protocol):
    """Where the runs of a sweep execute."""

    def launch(self, commands: Sequence[Sequence[str]], jobs: int) -> Iterable[tuple[int, int]]:
        """Run the commands, at most `jobs` at once; yield (position, exit code) as they end."""
        ...
