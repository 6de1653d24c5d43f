"""The contracts of the parts, as Protocols. A part needs no base class; it needs these methods.

Shapes in the docstrings: n = number of items, d = width of a context, A = number of admissible actions.
Importing this module does not import torch: tensors appear in annotations only.

Every part is built by its factory as ``factory(config, build)``: `config` is its own settings object,
whole, and `build` (a `Build`) is what it may use from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cbrcore.errors import CbrError
from cbrcore.types import Action, Candidate, EntityTuple, Observation, StepResult

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

Situation = Any
"""What a context encoder keeps of an observation; hashable (the state graph for graph encoders)."""

AgentState = Any
"""An agent's recurrent memory within an episode; None for agents without one."""


def no_parts(setting: str, build: Build) -> Any:
    """What `Build.make` is outside of a recipe.

    Raises:
        CbrError: always.
    """
    raise CbrError(
        f"nothing builds the part in the setting {setting!r}", hint="build it from a recipe, or give `make`"
    )


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
        action_features: width e of the features that an agent is given for each admissible action
            (`AgentInput.action_features`) and takes in beside what scores the action; 0: none.
        make: builds the part in a setting of the component's own (`cbrcore.config.NestedPart`), by the setting's
            name, with the `Build` that it shall have.
    """

    device: str = "cpu"
    seed: int = 0
    recipe_dir: Path = field(default_factory=Path.cwd)
    cache_dir: Path = field(default_factory=lambda: Path.home() / ".cache" / "cbr")
    text_encoder: TextEncoder | None = None
    context_dim: int = 0
    action_features: int = 0
    make: Callable[[str, Build], Any] = no_parts


@runtime_checkable
class Environment(Protocol):
    """A family of text games in named splits; one game is played at a time.

    `handicaps` names everything that makes the task easier than the bare text game (ground-truth
    graph, filtered commands ...); it is copied into the results.

    It may tell, for `cbr report` alone, where the objects of a split's games belong:
    ``object_places(split) -> {object: {place, ...}}``.
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
    """context(s_t, a_t): a continuous vector for the portion of the state relevant to an action [P §4.1].

    An encoder that makes a context of only some of an action's entities may have a method ``view(action)``: the
    action with its other entities as words of the template ("insert {} into fridge" of the apple). Cases then hold
    that template, and reuse puts the current action's own entities into it.

    An encoder that gives an object a vector of its own may say, for `cbr report`, how well neighbours share a
    place: ``held_out({object: places})``, as `cbr_entity/entity` has it [P App. G].
    """

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
    the next state's value is known. `situation` is what the key was made of, beside the action's seeds.
    """

    key: Tensor | None
    action: Action
    step: int
    reward: float
    td_error: float | None = None
    situation: Situation = None


@runtime_checkable
class RetainPolicy(Protocol):
    """retain(T): which of the episode's executed actions enter the memory when r_t > 0 [P §3, App. D]."""

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """`buffer` is the episode so far, oldest first; the last item is the rewarded one."""
        ...


@dataclass(frozen=True)
class AgentInput:
    """One step for an agent: what it sees, its recurrent state before, and what the reasoner offers.

    Attributes:
        candidates: what the case memory offers in this state.
        relevance: delta of each candidate [C], with gradients to the retriever; given while a joint agent is
            updated. None: the numbers in the candidates' matches are all there is.
        action_features: [A, e] for an agent that was built with them (`Build.action_features`).
    """

    observation: Observation
    state: AgentState = None
    candidates: tuple[Candidate, ...] = ()
    relevance: Tensor | None = None
    action_features: Tensor | None = None


@dataclass(frozen=True)
class PolicyOutput:
    """logits [A] over the admissible actions, value [] = V(s_t), state: recurrent memory for the next step."""

    logits: Tensor
    value: Tensor
    state: AgentState = None


@runtime_checkable
class NeuralAgent(Trainable, Protocol):
    """pi(a|s): the on-policy agent that is asked when nothing can be reused. It may have no parameters.

    Attributes that an agent may have besides:

    * `handicaps`: what it is told beyond the bare text game (a hand-written knowledge graph ...), as for an
      environment; it is copied into the results.
    * `action_features`: the width of the features per admissible action that it takes in; what
      `Build.action_features` asked for.
    * `joint`: True if it weighs the candidates itself. It is then asked at every step, and trained together with
      the retriever [P App. E].
    """

    def initial_state(self) -> AgentState:
        """The recurrent memory at the start of an episode."""
        ...

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """One output per input, batched. With gradients enabled they reach the agent's parameters,
        but not the recurrent state given in the input (it is a constant)."""
        ...


@dataclass(frozen=True)
class Job:
    """One command of a sweep.

    Attributes:
        command: program and arguments; every path in it is absolute.
        log: stdout and stderr are appended to this file; its folder exists.
        env: set beside the environment that the process is started in.
    """

    command: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)


Ended = tuple[int, int]
"""(position of a job, its exit code: negative if a signal ended it)"""


@runtime_checkable
class Launcher(Protocol):
    """Where the runs of a sweep execute. One `launch` at a time."""

    def launch(self, jobs: Sequence[Job], at_once: int | None) -> Generator[Sequence[Ended], None, None]:
        """Run every job once, at most `at_once` at the same time (None: as many as there is room for).

        Yields at least once a second what has ended since, which may be nothing: between two yields the caller
        shows progress, and may call `interrupt`. A job that fails, or cannot even be started (exit code 127), does
        not stop the others. Closing the generator early ends what is running.
        """
        ...

    def interrupt(self) -> None:
        """Pass Ctrl-C on: every running job gets SIGINT, and nothing new is started.

        `launch` then yields the jobs that were running, as they end, and is over.
        """
        ...
