"""The contracts of the parts, as Protocols. A part needs no base class; it needs these methods.

Shapes in the docstrings: n = number of items, d = width of a context, A = number of admissible actions.
Importing this module does not import torch: tensors appear in annotations only.

Every part is built as ``factory(config, build)``: its own settings, whole, and what it may use from outside.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from cbrcore.errors import CbrError
from cbrcore.types import (
    Action,
    Candidate,
    Case,
    Decision,
    EntityTuple,
    Match,
    Observation,
    Provenance,
    StepResult,
    Transition,
)

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from cbrcore.config import TrainingConfig
    from cbrcore.cycle.reasoner import CaseBasedReasoner
    from cbrcore.cycle.retriever import Retriever
    from cbrcore.rng import Streams

Situation = Any
"""What a context encoder keeps of an observation; hashable (the state graph for graph encoders)."""

AgentState = Any
"""An agent's recurrent memory within an episode; None for agents without one."""


def no_parts(setting: str, build: Build) -> Any:
    """What `Build.make` is outside of a recipe: a CbrError."""
    raise CbrError(
        f"nothing builds the part in the setting {setting!r}", hint="build it from a recipe, or give `make`"
    )


class Stopwatch:
    """Adds up seconds by part name. Parts do not nest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def __repr__(self) -> str:
        return f"Stopwatch({ {name: round(value, 2) for name, value in self.seconds.items()} })"

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time spent inside under `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start


@dataclass(frozen=True)
class Build:
    """What a factory may use besides its own settings.

    Attributes:
        device: "cpu" or "cuda"; where tensors and modules live.
        seed: the run's seed; derive generators from it with `cbrcore.rng.Streams`, by name.
        recipe_dir: relative paths in settings are relative to it.
        cache_dir: for files that can be made again (compiled games, encoded texts).
        text_encoder: the recipe's text encoder; None while that itself is built.
        context_dim, context_encoder: d and what makes contexts, known once that is built; 0 and None before.
        action_features: e, columns of `AgentInput.action_features`, taken in beside what scores actions; 0: none.
        index: makes a new, empty index for the keys of the recipe's quantizer; None before that is built.
        identity: of what makes the keys (encoders, quantizer), known once these are built; "" before.
        shared: what parts of one run have in common, by name; the environments of `run.num_envs`, above all.
        places: reads a map from an observation, where the environment can (`TellsPlaces`); None while it is built.
        make: builds the part in a setting of the component's own (`cbrcore.config.NestedPart`), by its name.
    """

    device: str = "cpu"
    seed: int = 0
    recipe_dir: Path = field(default_factory=Path.cwd)
    cache_dir: Path = field(default_factory=lambda: Path.home() / ".cache" / "cbr")
    text_encoder: TextEncoder | None = None
    context_dim: int = 0
    context_encoder: object | None = None
    action_features: int = 0
    index: Callable[[], KeyIndex] | None = None
    identity: str = ""
    shared: dict[str, Any] = field(default_factory=dict, compare=False)
    places: Callable[[Observation], Places] | None = None
    make: Callable[[str, Build], Any] = no_parts


@runtime_checkable
class Environment(Protocol):
    """A family of text games in named splits; one game is played at a time. An observation without admissible
    actions ends the episode (`Ending.NO_ACTIONS`); names and actions come back as they were given.

    `handicaps` names everything that makes the task easier than the bare text game (ground-truth
    graph, filtered commands ...); it is copied into the results. Optional abilities: `ConcurrentEnvironment`,
    `KnowsPlaces`, `TellsPlaces`, `KnowsContents`, `PlaysSlowly`.
    """

    handicaps: Mapping[str, Any]

    def splits(self) -> tuple[str, ...]:
        """Names of the splits; "train" is one of them."""

    def games(self, split: str) -> tuple[str, ...]:
        """Names of the split's games, in a fixed order. CbrError for an unknown split."""

    def game_info(self, game: str) -> Mapping[str, Any]:
        """JSON-able facts about a game for the records: content hash, max score, optimal steps if known."""

    def reset(self, game: str, seed: int) -> Observation:
        """Start `game` anew."""

    def step(self, action: Action) -> StepResult:
        """Execute an action. The reward is the change of the score."""

    def close(self) -> None:
        """Release engines and child processes; safe to call twice."""


@runtime_checkable
class ConcurrentEnvironment(Environment, Protocol):
    """An environment whose engine works in a process of its own: `step` is `send`, then `receive`.

    Between the two other engines can be given work (`run.num_envs`).
    """

    def send(self, action: Action) -> None:
        """Begin to execute an action."""

    def receive(self) -> StepResult:
        """Wait for what comes of it; what `step` would return."""


@runtime_checkable
class KnowsPlaces(Protocol):
    """An environment that can tell, for `cbr report` alone, where the objects of its games belong."""

    def object_places(self, split: str) -> Mapping[str, set[str]]:
        """object -> its places, over the games of a split."""


@dataclass(frozen=True)
class Places:
    """Where things are, as far as the episode has shown it.

    Attributes:
        here: the room of the player.
        exits: room -> the commands that leave it -> the room there; None where the episode has not been yet.
        where: thing -> what it is directly in or on: another thing, a room, or the player who holds it.
        player: the name of the player.
        holders: things and rooms into or onto which things may be put.
    """

    here: str
    exits: Mapping[str, Mapping[str, str | None]]
    where: Mapping[str, str]
    player: str = "player"
    holders: frozenset[str] = frozenset()


@runtime_checkable
class TellsPlaces(Protocol):
    """An environment that can read a map from what an agent has seen."""

    def places(self, observation: Observation) -> Places:
        """Depends on the observation alone, whichever game is being played; nothing that was not seen is told."""


@runtime_checkable
class KnowsContents(Protocol):
    """An environment that can tell equal games by more than the `sha256` or `md5` of their `game_info`."""

    def content(self, game: str) -> str:
        """Equal for games that differ in their names alone."""


@runtime_checkable
class PlaysSlowly(Protocol):
    """An environment that says how often the uniform random policy plays each game, unless a recipe does."""

    random_passes: int


@runtime_checkable
class TextEncoder(Protocol):
    """A frozen encoder of texts. `identity` changes whenever the vectors would."""

    dim: int
    identity: str

    def encode(self, texts: Sequence[str]) -> Tensor:
        """[n, dim] float32 on the build's device, one row per text; no gradient."""


class Trainable(Protocol):
    """The part of torch.nn.Module that the trainer and the checkpoints use."""

    def parameters(self) -> Iterable[torch.nn.Parameter]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> Any: ...
    def train(self, mode: bool = True) -> Any: ...  # noqa: FBT001 (torch's own signature)


@runtime_checkable
class ContextEncoder(Trainable, Protocol):
    """context(s_t, a_t): a continuous vector for the portion of the state relevant to an action [P §4.1].

    Optional abilities: `ViewsActions`, `PlacesObjects`.
    """

    dim: int

    def situation(self, observation: Observation, past: Sequence[Observation]) -> Situation:
        """What this encoder needs of the state, hashable. `past` holds the episode's earlier observations."""

    def contexts_of_pairs(self, pairs: Sequence[tuple[Situation, EntityTuple]]) -> Tensor:
        """[n, d]: one context per pair of state and seeds. A row depends on its own pair alone."""


@runtime_checkable
class PairFeature(Protocol):
    """What two names have to do with each other, as a number; a part within another part."""

    def values(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """[n] float32, finite: one value per pair."""


@runtime_checkable
class ViewsActions(Protocol):
    """A context encoder that makes a context of only some of an action's entities.

    Cases then hold the template that it sees, and reuse puts the current action's own entities into it.
    """

    def view(self, action: Action) -> Action:
        """The action with its other entities as words of the template ("insert {} into fridge" of the apple)."""


@runtime_checkable
class PlacesObjects(Protocol):
    """A context encoder that gives an object a vector of its own, so that `cbr report` can show how well
    neighbours share a place [P App. G]."""

    def held_out(self, places: Mapping[str, set[str]]) -> Any:
        """object -> its places; how often the nearest other object has a place in common, and the vectors."""


@runtime_checkable
class KeyIndex(Protocol):
    """The keys of a memory, row by row, and their similarity to queries.

    Row numbers are positions: `keep` renumbers. No gradient flows through an index.
    """

    def __len__(self) -> int: ...

    def add(self, keys: Tensor) -> None:
        """Append keys [n, ...]."""

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""

    def similarities(self, queries: Tensor) -> Tensor:
        """[n, len(self)] float32 in [0, 1]; -inf where an approximate index did not look."""

    def keys(self) -> Tensor:
        """All keys [len(self), ...] as stored."""


@runtime_checkable
class Quantizer(Trainable, Protocol):
    """phi: context -> key, and the similarity of keys [P §4.2]."""

    def fit(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Initialise from data [n, d] (k-means for codebooks); a fixed quantizer does nothing."""

    def keys(self, contexts: Tensor) -> Tensor:
        """[n, d] -> keys [n, ...]; no gradient."""

    def similarity(self, contexts: Tensor, keys: Tensor) -> Tensor:
        """[n] in [0, 1]: context i against key i. Gradients reach encoder and quantizer; keys are constants."""

    def pair_similarity(self, left: Tensor, right: Tensor) -> Tensor:
        """[n] in [0, 1]: context i against context i, gradients to both sides (pretraining)."""

    def regularizer(self, contexts: Tensor) -> Tensor:
        """Scalar loss that keeps the quantizer close to its data; 0 for fixed quantizers."""

    def maintain(self, contexts: Tensor, generator: torch.Generator) -> None:
        """Upkeep after a training update, given the update's contexts [n, d] (dead-code revival)."""

    def index(self) -> KeyIndex:
        """A new, empty index for this quantizer's keys."""

    def metrics(self) -> Mapping[str, float]:
        """Figures worth logging, as `ReportsMetrics` gives them: code usage, perplexity."""


@dataclass(frozen=True)
class RetainItem:
    """One executed action of the running episode, as retain policies see it. `key` is None for an action without
    seeds; such items cannot be stored. `td_error` is None until the next state's value is known. `situation` is
    what the key was made of, beside the action's seeds; `before`, `after`: what was seen, where that is known.
    `retained`: an earlier reward of this episode had it stored."""

    key: Tensor | None
    action: Action
    step: int
    reward: float
    td_error: float | None = None
    situation: Situation = None
    before: Observation | None = None
    after: Observation | None = None
    retained: bool = False


@runtime_checkable
class RetainPolicy(Protocol):
    """retain(T): which of the episode's executed actions enter the memory when r_t > 0 [P §3, App. D]."""

    def select(self, buffer: Sequence[RetainItem], rng: np.random.Generator) -> Sequence[RetainItem]:
        """`buffer` is the episode so far, oldest first; the last item is the rewarded one."""


@runtime_checkable
class Reuse(Protocol):
    """Reuse and revise within one episode [P §3]."""

    def asks(self, observation: Observation) -> Iterable[EntityTuple]:
        """The seeds for which `offer` will retrieve cases, so that their keys can be computed together."""

    def offer(self, observation: Observation, situation: Situation) -> tuple[Candidate, ...]:
        """Retrieve and reuse: the candidates in this state."""

    def choose(self, candidates: Sequence[Candidate], probability: Mapping[Action, float]) -> Candidate | None:
        """Revise: the candidate that is executed; None: the neural agent decides.

        Args:
            probability: pi(a|s) of each admissible action.
        """

    def observe(self, decision: Decision, result: StepResult) -> bool:
        """Take in what came of a step; whether it is evidence against the action where it was taken."""


@runtime_checkable
class ReusePolicy(Protocol):
    """What is done with retrieved cases. Built with `Build.places`, where the environment tells places.

    Its settings are a `cbrcore.config.ReuseConfig`. Optional abilities: `TellsHandicaps`, `KeepsState`.
    """

    def begin(self, retriever: Retriever | None, *, learning: bool) -> Reuse:
        """An episode begins, of training or (nothing may be learned) of evaluation. There may be no retriever
        where `ReuseConfig.needs_cases` is false."""


@runtime_checkable
class TellsFacts(Protocol):
    """A memory or reuse policy that has something to say in results.json."""

    def facts(self) -> Mapping[str, Any]:
        """JSON-able; the same for a run that was resumed."""


@runtime_checkable
class KeepsState(Protocol):
    """A reuse policy or environment (of several the first) that learns: what it knows is part of a checkpoint."""

    def state(self) -> Mapping[str, Any]:
        """JSON-able."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""


@dataclass(frozen=True)
class StoredCases:
    """What the files of a case memory hold (`Memory.read`).

    Attributes:
        keys: [len(cases), ...], None without cases.
        situations: of each case; None where it was not written.
        identity: the settings of encoders and quantizer that made the keys.
        weights: a digest of their parameters, "" if unknown.
    """

    cases: Sequence[Case]
    keys: Tensor | None
    situations: Sequence[Situation]
    identity: str
    weights: str
    next_id: int


@runtime_checkable
class CaseStore(Protocol):
    """Cases with their keys, as a checkpoint holds them."""

    @property
    def cases(self) -> Sequence[Case]:
        """In the order in which they were retained. What is set on one counts, also where they are made anew."""

    @property
    def situations(self) -> Mapping[int, Situation]:
        """Case id -> what its key was made of, beside its seeds; enough to make the key again."""

    def __len__(self) -> int: ...

    def key_of(self, case: Case) -> Tensor:
        """The stored key [...] of a case; a constant."""

    def replace_keys(self, keys: Tensor) -> None:
        """Give the cases new keys [len(self), ...], in the order of `cases`."""

    def merge(self, stored: StoredCases, keys: Tensor | None) -> None:
        """Add the cases of another run, with these keys [len(stored.cases), ...]."""

    def save(self, folder: Path, *, weights: str = "") -> None:
        """Write everything into `folder`, for `load`."""

    def load(self, folder: Path) -> None:
        """Replace the contents by what `save` wrote. RunFolderError: damaged, or made by other encoders."""


@runtime_checkable
class Memory(CaseStore, Protocol):
    """The case memory M: keeps (key, action) pairs and finds them again [P §3, §4.2].

    Built with `Build.index`, which makes an empty index for the quantizer's keys, and `Build.identity`; its
    settings are a `cbrcore.config.MemoryConfig`.

    Attributes:
        threshold: tau; a case is retrieved if its relevance is strictly greater.
    """

    threshold: float

    def retrieve(self, keys: Tensor) -> list[list[Match]]:
        """For each key [n, ...] the matches above tau (several only if they tie), the preferred one first."""

    def similarities(self, keys: Tensor) -> Tensor:
        """[n, len(self)]: of each key to each case, as `retrieve` compares them; -inf where it does not look."""

    def add(self, item: RetainItem, provenance: Provenance, *, step: int) -> Case:
        """Retain an item that has a key as a case; where an equal one is there, count its reward, unless it was
        `retained` before. `step`: environment steps of the run so far."""

    def read(self, folder: Path) -> StoredCases:
        """The cases that a memory of this kind saved, in whichever run. RunFolderError: missing or damaged."""

    def note_outcome(self, item: RetainItem, provenance: Provenance, *, failed: bool, step: int) -> None:
        """What came of an executed action that has a key (`failed`: it was reused and earned nothing)."""

    def stores(self) -> Mapping[str, CaseStore]:
        """All that is remembered, by the name of its folder in a checkpoint; "memory" holds the cases."""


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

    Optional abilities: `RevisingAgent`, `TellsHandicaps`, `TakesFeatures`.
    """

    def initial_state(self) -> AgentState:
        """The recurrent memory at the start of an episode."""

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """One output per input, batched. With gradients enabled they reach the agent's parameters,
        but not the recurrent state given in the input (it is a constant)."""


@runtime_checkable
class TellsHandicaps(Protocol):
    """An agent, reuse policy or context encoder that is told more than the bare text game (a hand-written
    knowledge graph ...), as an `Environment` may tell."""

    handicaps: Mapping[str, Any]


@runtime_checkable
class TakesFeatures(Protocol):
    """An agent that takes in `action_features` features of each admissible action, if `Build` asks for them."""

    action_features: int


@runtime_checkable
class RevisingAgent(NeuralAgent, Protocol):
    """An agent that does the revise step itself: it has weighed what the memory offers in its policy, is asked at
    every step, and needs a case memory [P App. E]."""

    def revise(self, candidates: Sequence[Candidate], drawn: Action) -> Candidate | None:
        """The candidate that offered the action `drawn` from its policy, None if it is the agent's own alone. The
        action is executed in either case."""


@runtime_checkable
class ReportsMetrics(Protocol):
    """Any part that has figures worth logging. They reach metrics.jsonl, the recorders and the report by name."""

    def metrics(self) -> Mapping[str, float]:
        """name -> value, after a game play. The docstring has a line ``name: what it is`` for each."""


@runtime_checkable
class Learner(Protocol):
    """Turns the transitions of the running episodes into updates.

    Attributes:
        skipped: how many updates a loss or gradient that is not finite has cost.
    """

    skipped: int

    def begin(
        self, players: Sequence[CaseBasedReasoner], training: TrainingConfig, streams: Streams, clock: Stopwatch
    ) -> None:
        """Make optimisers and the like, before the first step.

        Args:
            players: one for each game that is played at the same time; they share agent and retriever.
        """

    def took_step(self, seat: int, transition: Transition) -> None:
        """The player in this seat took a step."""

    def round_of_steps_done(self) -> None:
        """Every player whose episode goes on has taken a step since the last call: a good moment for an update."""

    def pop_losses(self) -> Mapping[str, float | None]:
        """Mean losses since the last call as ``loss_<name>``, for the metrics row; None where was no update."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Everything it needs to go on after a resume, beside the weights of the parts; names hold a colon."""

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint's tensors; those that `tensors` named are among them."""


@dataclass(frozen=True)
class Scene:
    """What a pretraining has to work with.

    Attributes:
        environments: alike, one for each game that may be played at the same time.
        player: agent and retriever.
        directory: relative paths in settings start here.
        phase, advance: show progress: ``phase(title, total)``, then ``advance()`` for each unit; `advance` raises
            `cbrcore.errors.Interrupted` if the user wants to stop.
    """

    environments: Sequence[Environment]
    player: CaseBasedReasoner
    training: TrainingConfig
    streams: Streams
    clock: Stopwatch
    directory: Path
    phase: Callable[[str, int], None]
    advance: Callable[[], None]


@runtime_checkable
class Pretraining(Protocol):
    """What the retriever learns before the first play [P §5]."""

    def run(self, scene: Scene) -> Mapping[str, Any] | None:
        """Train the retriever of ``scene.player``; JSON-able facts for the results, None if nothing was to do."""


@runtime_checkable
class Recorder(Protocol):
    """Is told each metrics row and the results, to show them elsewhere. metrics.jsonl is written without it."""

    def begin(self, folder: Path, recipe: Mapping[str, Any], *, after: int) -> None:
        """A run begins or goes on.

        Args:
            folder: the run's.
            recipe: the resolved recipe as plain data.
            after: episodes that were recorded before; what a dead run recorded later is void.
        """

    def write(self, row: Mapping[str, Any]) -> None:
        """A row of metrics.jsonl."""

    def finish(self, results: Mapping[str, Any]) -> None:
        """The run is done; what results.json holds."""

    def close(self) -> None:
        """Let go of everything; safe to call twice, and without `finish` where a run ended early."""


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

    def interrupt(self) -> None:
        """Pass Ctrl-C on: every running job gets SIGINT, and nothing new is started.

        `launch` then yields the jobs that were running, as they end, and is over.
        """


# -- around the recipe -------------------------------------------------------------------------------------------


Keys = tuple[str | int, ...]
"""The way to a value: ("training", "pretrain", "epochs")."""
Fault = tuple[Keys, str]
"""(where, what is wrong)"""
Trial = Callable[[Mapping[str, Keys]], Iterable[Fault]]
"""Checks the whole recipe with other values: dotted path of the recipe -> where in the section its value stands.
It gives what these values make wrong, by the place in the section."""


@runtime_checkable
class ChecksRecipe(Protocol):
    """A recipe section that is more than settings: it looks at the rest of the recipe."""

    def faults(self, trial: Trial) -> Iterable[Fault]:
        """What is wrong with the section, by the place in it; what the trials find is passed on."""


@runtime_checkable
class HasOverview(Protocol):
    """A recipe section that ``cbr check`` shows in rows of its own."""

    def overview(self) -> Iterable[tuple[str, str]]:
        """(what, its value as text) of each row."""


Health = Literal["ok", "absent", "problem", "broken"]
"""absent: something optional is not here. problem: something optional is wrong. broken: it is essential."""


@dataclass(frozen=True)
class Finding:
    """What a check of ``cbr doctor`` found.

    Attributes:
        section: findings of one section stand together.
        mend: what to type; empty if all is well.
    """

    section: str
    name: str
    status: Health
    found: str
    mend: str = ""


class ReportedRun(Protocol):
    """A finished run, as a section of the report sees it.

    Attributes:
        recipe, results: what recipe.yaml and results.json hold, as plain data.
        metrics: the rows of metrics.jsonl.
        agent, place: what the tables call it, and where it plays.
    """

    path: Path
    recipe: Mapping[str, Any]
    results: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    seed: int
    agent: str
    place: str


@dataclass(frozen=True)
class Column:
    """A table's column: its title, and what it holds: "text", "number", "ours" or "paper"."""

    title: str
    kind: str = "number"


@dataclass(frozen=True)
class Table:
    """The same cells on the page, as Markdown and as CSV.

    Attributes:
        id: names its CSV file and its place on the page.
        note: what to know about it, in one or two sentences.
        remarks: further facts, one a line.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure of the report.

    Attributes:
        id: names its file and its place on the page.
        chart: an altair chart, or a Vega-Lite specification as a dictionary.
        lines: (kind, text) shown below it.
    """

    id: str
    title: str
    chart: Any
    caption: str = ""
    lines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """A part of the report. Sections stand by their `order`: results from 10, figures from 20, protocol at 90."""

    id: str
    title: str
    parts: Sequence[Table | Figure]
    lead: str = ""
    order: int = 50
