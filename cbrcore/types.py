"""The words of the project as frozen dataclasses: what flows between environment, reasoner and agent.

Nothing here imports torch; everything is hashable where it can be, so that caches can use it as a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

Triple = tuple[str, str, str]
"""(head, relation, tail), names in lower case as the game prints them."""

EntityTuple = tuple[str, ...]
"""The entities V_a of an action, in the order in which the command names them."""

SLOT = "{}"
"""Marks an entity's place in an action template: ``put {} on {}``."""


@dataclass(frozen=True, slots=True)
class Action:
    """A command as template + entities [P §4.1]: ``put {} on {}`` + (apple, shelf).

    Attributes:
        text: the command as the game takes it.
        template: the command with `SLOT` in each entity's place.
        entities: V_a in the order of the slots.
        seeds: the nodes from which the context is computed. `entities` unless the environment says
            otherwise (an object-free action may seed the player). Empty: nothing is retrieved for it.
    """

    text: str
    template: str
    entities: EntityTuple = ()
    seeds: EntityTuple = ()

    @classmethod
    def from_template(
        cls, template: str, entities: Sequence[str], *, seeds: Sequence[str] | None = None
    ) -> Action:
        """Fill the template's slots with `entities` from left to right.

        Raises:
            ValueError: the number of entities is not the number of slots.
        """
        names = tuple(entities)
        return cls(fill(template, names), template, names, names if seeds is None else tuple(seeds))


def arity(template: str) -> int:
    """How many entities a template takes."""
    return template.count(SLOT)


def fill(template: str, entities: Sequence[str]) -> str:
    """The command that `template` gives for `entities`; ValueError if their number does not fit."""
    pieces = template.split(SLOT)
    if len(pieces) != len(entities) + 1:
        raise ValueError(
            f"template {template!r} takes {len(pieces) - 1} entities, got {len(entities)}: {entities!r}"
        )
    return pieces[0] + "".join(name + piece for name, piece in zip(entities, pieces[1:], strict=True))


@dataclass(frozen=True)
class StateGraph:
    """The state graph G_t = (V, R, E) [P §4.1], in a canonical order: equal facts give equal graphs.

    Build it with `StateGraph.of`, which removes duplicates and keeps nodes without edges.
    """

    nodes: tuple[str, ...]
    triples: tuple[Triple, ...] = ()

    @classmethod
    def of(cls, triples: Iterable[Triple], nodes: Iterable[str] = ()) -> StateGraph:
        """The graph of `triples` plus isolated `nodes`, sorted and without duplicates."""
        edges = sorted(set(triples))
        names = {name for head, _, tail in edges for name in (head, tail)}
        return cls(tuple(sorted(names.union(nodes))), tuple(edges))

    @cached_property
    def _hash(self) -> int:
        return hash((self.nodes, self.triples))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def index(self) -> dict[str, int]:
        """Row of each node name."""
        return {name: row for row, name in enumerate(self.nodes)}


class Ending(StrEnum):
    """How an episode ended. A time limit is not an ending of the game: the value is bootstrapped there."""

    WON = "won"
    LOST = "lost"
    TRUNCATED = "truncated"
    ENGINE_ERROR = "engine_error"
    NO_ACTIONS = "no_actions"
    """The game goes on, but nothing can be done any more: no action is admissible."""

    @property
    def terminal(self) -> bool:
        """Whether the game truly ended, so that V(s_T) is 0."""
        return self in (Ending.WON, Ending.LOST, Ending.NO_ACTIONS)


class Fingerprint(NamedTuple):
    """Equal names: an equal state of a game, world (what is where, and how), view (what surrounds the player)."""

    state: str
    world: str
    view: str


@dataclass(frozen=True)
class Observation:
    """What the agent sees at one step.

    Attributes:
        feedback: the game's answer to the last command.
        description: what ``look`` prints here; empty if the environment was not asked for it.
        inventory: what ``inventory`` prints.
        admissible: A_t, sorted, without duplicates. Where it is empty the episode ends (`Ending.NO_ACTIONS`).
        graph: the state graph G_t.
        score, max_score: of the running game; max_score is None where the game does not tell.
        scored: commands of this episode that raised the score so far, oldest first.
        last_action: the command that led here, None after reset.
        game: the game's name.
        steps: commands issued so far in this episode.
        fingerprint: of the game's state; None where it is not known.
    """

    feedback: str
    description: str
    inventory: str
    admissible: tuple[Action, ...]
    graph: StateGraph
    score: float = 0.0
    max_score: float | None = None
    scored: tuple[str, ...] = ()
    last_action: str | None = None
    game: str = ""
    steps: int = 0
    fingerprint: Fingerprint | None = None

    @cached_property
    def text(self) -> str:
        """The observation text: feedback + description + inventory + the commands that scored."""
        parts = [self.feedback.strip(), self.description.strip(), self.inventory.strip(), *self.scored]
        if parts[0] == parts[1]:
            del parts[0]  # after "look" the feedback is the description
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True)
class StepResult:
    """What `Environment.step` returns.

    `reward` is the score *difference*; `ending` is None while the game goes on.

    `rescored` marks a step that repeats an achievement which paid before (an object put back in its
    place): it earns nothing although it is right, so it must not teach the retriever that it was wrong.
    """

    observation: Observation
    reward: float
    ending: Ending | None = None
    rescored: bool = False


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a case comes from."""

    game: str
    seed: int
    episode: int
    step: int
    reward: float


@dataclass(slots=True)
class Case:
    """One entry of the case memory: a key (held by the memory's index) and an action [P §3].

    The counters change over a run: an equal (key, template) pair is not stored twice, it is counted.

    Attributes:
        seeds: the nodes from which the context was computed.
        rewarded: how often the pair was retained with a reward.
        reused, reuse_rewarded: how often it was reused while training, and how often that earned a reward.
        last_step: environment steps of the run when it was last retained.
    """

    id: int
    template: str
    entities: EntityTuple
    text: str
    provenance: Provenance
    rewarded: int = 1
    reused: int = 0
    last_step: int = 0
    seeds: EntityTuple = ()
    reuse_rewarded: int = 0


@dataclass(frozen=True)
class Match:
    """A case retrieved for one context, with its relevance delta in [0, 1]; `against` is that of the most similar
    case that failed with the same template, where such cases are kept (`memory.outcome: both`)."""

    case: Case
    relevance: float
    against: float = 0.0


@dataclass(frozen=True)
class Candidate:
    """A reused case: the case's template on the current entities.

    Attributes:
        action: the admissible action if there is one of this text, else what reuse made up.
        match: the case and its relevance delta.
        seeds: the context for which the case was retrieved; empty for a case without a key, of a policy's own.
        verdict: what revise found: "admissible", "inadmissible", "pending" (a goal that is out of reach now), or
            "failed" or "solved" (earlier in this episode; or a case that failed is at least as similar).
        means: the admissible action that leads towards a pending goal.
        value: by which a reuse policy that weighs ways prefers one candidate to another; None: the relevance.
        why: what the means is good for, or why a case without a key is reused, in a few words.
    """

    action: Action
    match: Match
    seeds: EntityTuple
    verdict: str
    means: Action | None = None
    value: float | None = None
    why: str = ""

    @property
    def executed(self) -> Action:
        """What is done if this candidate is chosen."""
        return self.means or self.action


@dataclass(frozen=True)
class Decision:
    """Why an action was taken, kept so that "why?" can be answered later.

    Attributes:
        action: the executed action a*_t.
        source: "reuse" if it came from the case memory, "agent" if the neural agent was asked; "person" if
            somebody who plays with its advice (`cbr play --human`) chose something else.
        candidates: everything that was retrieved and reused, most relevant first.
        chosen: the candidate executed, None when the agent was asked. A joint agent is always asked; then it is
            the candidate, if any, that offered the action which the agent took.
        agent_action: what the agent alone would have done (drawn from pi at the same step).
        agent_probability: pi(a*_t | s_t).
        value: V(s_t) of the agent.
    """

    action: Action
    source: str
    candidates: tuple[Candidate, ...] = ()
    chosen: Candidate | None = None
    agent_action: Action | None = None
    agent_probability: float = 0.0
    value: float = 0.0


@dataclass(frozen=True)
class Transition:
    """One step of an episode: before, why, after. `trace` is what the actor wants to remember of the step."""

    observation: Observation
    decision: Decision
    result: StepResult
    trace: Any = None


@dataclass
class Episode:
    """One game play, summed up. `opening` is what was seen before the first step."""

    game: str
    seed: int
    transitions: list[Transition] = field(default_factory=list)
    opening: Observation | None = None

    @property
    def ending(self) -> Ending | None:
        if self.transitions:
            return self.transitions[-1].result.ending
        return Ending.NO_ACTIONS if self.opening and not self.opening.admissible else None

    @property
    def last(self) -> Observation | None:
        """What was seen last."""
        return self.transitions[-1].result.observation if self.transitions else self.opening

    @property
    def score(self) -> float:
        return self.last.score if self.last else 0.0

    @property
    def steps(self) -> int:
        return len(self.transitions)

    @property
    def norm_score(self) -> float | None:
        """Final score / max score of the game; None where the game does not tell a maximum above 0."""
        best = self.last.max_score if self.last else None
        return None if best is None or not best > 0 else self.score / best
