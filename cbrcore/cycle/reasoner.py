"""Case-based reasoning: retrieve -> reuse -> revise -> retain, Algorithm 1 of the paper in one file.

The reasoner decides; it does not learn. Losses are the learner's, the episode loop is `cbrcore.cycle.runner`.
Without a retriever the same class is the plain neural agent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cbrcore.cycle.retriever import Retriever
from cbrcore.interfaces import (
    AgentInput,
    AgentState,
    NeuralAgent,
    PolicyOutput,
    RetainItem,
    RetainPolicy,
    RevisingAgent,
    Situation,
    Stopwatch,
    Trainable,
)
from cbrcore.types import (
    SLOT,
    Action,
    Candidate,
    Decision,
    EntityTuple,
    Match,
    Observation,
    Provenance,
    StepResult,
    arity,
    fill,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Trace:
    """What the trainer needs of a step beyond the decision.

    Attributes:
        agent_input: what the agent saw, with its recurrent state before the step.
        situation: what the context encoder kept of the state; None without a retriever.
        matched_key: the stored key of the reused case, a constant; None when the agent was asked.
        candidate_keys: of each candidate, where the agent itself does the revise step.
    """

    agent_input: AgentInput
    situation: Situation = None
    matched_key: Tensor | None = None
    candidate_keys: tuple[Tensor, ...] = ()


class CaseBasedReasoner:
    """One agent in the world: the four steps of case-based reasoning around a neural agent pi.

    Args:
        agent: pi, asked when nothing can be reused; one that revises itself at every step.
        retriever: None for the plain neural agent.
        retain_policy: which executed actions are stored when a reward comes; None if nothing is retained.
        gamma: discount, for the TD errors that retain policies may use.
        retry_failed: whether an action that earned nothing may be reused again in the same episode.
        clock: where the seconds of each part are added up.
    """

    def __init__(
        self,
        agent: NeuralAgent,
        retriever: Retriever | None = None,
        retain_policy: RetainPolicy | None = None,
        *,
        gamma: float = 0.9,
        retry_failed: bool = True,
        clock: Stopwatch | None = None,
    ) -> None:
        self.agent = agent
        self.revising = agent if isinstance(agent, RevisingAgent) else None
        self.retriever = retriever
        self.retain_policy = retain_policy
        self.gamma = gamma
        self.retry_failed = retry_failed
        self.clock = clock or Stopwatch()
        self.begin_episode()

    def __repr__(self) -> str:
        return f"CaseBasedReasoner(agent={self.agent!r}, retriever={self.retriever!r})"

    def companion(self) -> CaseBasedReasoner:
        """Another player of the same agent with the same memory, for a second game at the same time."""
        other = copy(self)
        other.begin_episode()
        return other

    def modules(self) -> dict[str, Trainable]:
        """Everything that has weights or buffers, by name."""
        return {"agent": self.agent} | (self.retriever.modules() if self.retriever else {})

    def begin_episode(self) -> None:
        """Forget the previous episode's buffer T, history and recurrent state."""
        self._buffer: list[RetainItem] = []
        self._past: list[Observation] = []
        self._failed: set[str] = set()
        self._reuse_failed = False
        self._state: AgentState = self.agent.initial_state()
        if self.retriever is not None:
            self.retriever.forget()
        self._last_value = 0.0

    def decide(
        self, observation: Observation, rng: np.random.Generator, *, greedy: bool = False
    ) -> tuple[Decision, Trace]:
        """Choose a*_t for the state, and say why.

        Args:
            observation: s_t with at least one admissible action.
            rng: draws the agent's action (also on steps where it is not needed, so that the random
                stream does not depend on what was retrieved).
            greedy: take the agent's most probable action instead of drawing one.
        """
        return decide_together([self], [observation], rng, greedy=greedy)[0]

    def situation(self, observation: Observation) -> Situation:
        """What the context encoder keeps of the state and of the episode so far."""
        if self.retriever is None:
            return None
        with self.clock.part("encoder"):
            return self.retriever.encoder.situation(observation, self._past)

    def consider(self, observation: Observation, situation: Situation) -> AgentInput:
        """Retrieve and reuse: what the agent sees, and the candidates that the memory offers. Each is the template
        of a retrieved action on the entities V_a of a current one [P §4.3]."""
        admissible = {action.text: action for action in observation.admissible}
        candidates = tuple(
            self._adapt(match, action, admissible)
            for action, matches in self._retrieve(situation, observation)
            for match in matches
            if arity(match.case.template) == len(action.entities)
        )
        return AgentInput(observation, self._state, candidates)

    def conclude(
        self,
        agent_input: AgentInput,
        output: PolicyOutput,
        situation: Situation,
        rng: np.random.Generator,
        *,
        greedy: bool,
    ) -> tuple[Decision, Trace]:
        """Revise: the most relevant candidate that is admissible, else the action of pi. An agent that revises
        itself has weighed the candidates: its own action is executed, whoever offered it [App. E]."""
        observation, candidates = agent_input.observation, agent_input.candidates
        probabilities = output.logits.detach().double().softmax(dim=0).cpu().numpy()  # [A]
        value, self._state = float(output.value), output.state
        agent_action = observation.admissible[_draw(probabilities, rng, greedy=greedy)]
        if self.revising is not None:
            chosen = self.revising.revise(candidates, agent_action)
        else:
            policy = dict(zip(observation.admissible, probabilities.tolist(), strict=True))
            chosen = most_relevant(candidates, policy)
        action = agent_action if chosen is None or self.revising else chosen.action
        decision = Decision(
            action=action,
            source="reuse" if chosen and not self.revising else "agent",
            candidates=tuple(sorted(candidates, key=lambda c: -c.match.relevance)),
            chosen=chosen,
            agent_action=agent_action,
            agent_probability=float(probabilities[observation.admissible.index(action)]),
            value=value,
        )
        self._complete_td_error(value)
        self._past.append(observation)
        key = self.retriever.memory.key_of(chosen.match.case) if chosen and self.retriever else None
        return decision, Trace(agent_input, situation, key, self._keys_of(candidates) if self.revising else ())

    def _keys_of(self, candidates: Sequence[Candidate]) -> tuple[Tensor, ...]:
        """The stored key of each candidate's case, now that it is in memory."""
        if self.retriever is None:
            return ()
        cases = {candidate.match.case.id: candidate.match.case for candidate in candidates}
        keys = {number: self.retriever.memory.key_of(case) for number, case in cases.items()}
        return tuple(keys[candidate.match.case.id] for candidate in candidates)

    # -- retrieve ------------------------------------------------------------------------------------------

    def _retrieve(self, situation: Situation, observation: Observation) -> list[tuple[Action, list[Match]]]:
        """One context per distinct entity tuple: "take X" and "examine X" share it, which is exact, since the
        context depends on the graph and V_a only [P §4.1]. Returned with one action that has the tuple."""
        if self.retriever is None:
            return []
        views = (self.retriever.view(action) for action in observation.admissible if action.seeds)
        distinct = {(action.seeds, action.entities): action for action in views}
        matches = self.retriever.retrieve(situation, [seeds for seeds, _ in distinct])
        return [(action, found) for action, found in zip(distinct.values(), matches, strict=True) if found]

    def _adapt(self, match: Match, current: Action, admissible: dict[str, Action]) -> Candidate:
        """Entities in the order of the current action; if that is inadmissible, in the other orders."""
        text = first_order(match.case.template, current.entities, admissible)
        if text is None:
            made = Action.from_template(match.case.template, current.entities, seeds=current.seeds)
            return Candidate(made, match, current.seeds, "inadmissible")
        fitting = admissible[text]
        failed = match.against >= match.relevance or (not self.retry_failed and fitting.text in self._failed)
        return Candidate(fitting, match, current.seeds, "failed" if failed else "admissible")

    def value_of(self, observation: Observation) -> float:
        """V(s) after the steps taken so far; changes nothing (the bootstrap of the returns). 0 where
        nothing can be done any more."""
        import torch

        if not observation.admissible:
            return 0.0
        with self.clock.part("agent"), torch.no_grad():
            return float(self.agent.policy([AgentInput(observation, self._state)])[0].value)

    # -- retain --------------------------------------------------------------------------------------------

    def observe(self, decision: Decision, trace: Trace, result: StepResult) -> None:
        """Take in the outcome of the executed action: the episode's buffer T grows by (c*_t, a*_t)."""
        if result.reward <= 0:
            self._failed.add(decision.action.text)
        if self.retriever is None or self.retain_policy is None:
            return
        action = self.retriever.view(decision.action)
        key = self.retriever.keys(trace.situation, [action.seeds])[0] if action.seeds else None
        self._buffer.append(RetainItem(key, action, len(self._buffer), result.reward, situation=trace.situation))
        self._reuse_failed = decision.chosen is not None and result.reward <= 0 and not result.rescored

    def retain(self, rng: np.random.Generator, provenance: Provenance, *, env_steps: int) -> int:
        """After a rewarded step: store what the retain policy picks from the buffer; returns how many items.

        Called by the trainer only, so that the memory is frozen at test time.
        """
        if self.retriever is None or self.retain_policy is None:
            return 0
        last = self._buffer[-1]
        if last.key is not None:
            origin = replace(provenance, step=last.step)
            self.retriever.memory.note_outcome(last, origin, failed=self._reuse_failed, step=env_steps)
        if provenance.reward <= 0:
            return 0
        stored = 0
        for item in self.retain_policy.select(self._buffer, rng):
            if item.key is not None:
                origin = replace(provenance, step=item.step, reward=item.reward)
                self.retriever.memory.add(item.key, item.action, origin, step=env_steps, situation=item.situation)
                stored += 1
        return stored

    def _complete_td_error(self, value: float) -> None:
        """delta_{t-1} = r_{t-1} + gamma V(s_t) - V(s_{t-1}), known once V(s_t) is."""
        if self._buffer:
            last = self._buffer[-1]
            self._buffer[-1] = replace(last, td_error=last.reward + self.gamma * value - self._last_value)
        self._last_value = value


def decide_together(
    reasoners: Sequence[CaseBasedReasoner],
    observations: Sequence[Observation],
    rng: np.random.Generator,
    *,
    greedy: bool = False,
) -> list[tuple[Decision, Trace]]:
    """Several players of one agent and one retriever decide, each in a game of its own.

    All contexts are computed in one pass of the encoder and all policies in one of pi, which is what makes
    parallel games faster. The random numbers are drawn in the order of the players.
    """
    import torch

    agent, retriever, clock = reasoners[0].agent, reasoners[0].retriever, reasoners[0].clock
    seen = list(zip(reasoners, observations, strict=True))
    together = [(player, observation, player.situation(observation)) for player, observation in seen]
    if retriever is not None and len(retriever.memory):
        retriever.prepare(
            (situation, retriever.view(action).seeds)
            for _, observation, situation in together
            for action in observation.admissible
            if action.seeds
        )
    inputs = [player.consider(observation, situation) for player, observation, situation in together]
    with clock.part("agent"), torch.no_grad():
        outputs = agent.policy(inputs)
    return [
        player.conclude(agent_input, output, situation, rng, greedy=greedy)
        for (player, _, situation), agent_input, output in zip(together, inputs, outputs, strict=True)
    ]


def first_order(template: str, entities: Sequence[str], texts: Collection[str]) -> str | None:
    """The first of `texts` that the template gives for the entities, in the order of `itertools.permutations`.

    Grows the command slot by slot, and only as long as a text begins like that: all orders would be n!.
    """
    first = fill(template, entities)
    if first in texts:
        return first
    pieces, letters = template.split(SLOT), sorted(first)
    alike = (text for text in texts if len(text) == len(first) and text.endswith(pieces[-1]))
    known = sorted(text for text in alike if sorted(text) == letters)
    grown, seen = [(pieces[0], tuple(entities))], set[tuple[str, EntityTuple]]()
    while grown:
        command, left = grown.pop()
        at = bisect_left(known, command)
        if (command, left) in seen or at == len(known) or not known[at].startswith(command):
            continue
        if not left:
            return command
        seen.add((command, left))
        piece = pieces[len(pieces) - len(left)]
        for name in reversed(dict.fromkeys(left)):
            spot = left.index(name)
            grown.append((command + name + piece, left[:spot] + left[spot + 1 :]))
    return None


def most_relevant(candidates: Sequence[Candidate], probability: dict[Action, float]) -> Candidate | None:
    """Of the candidates that are admissible the most relevant one; None: ask pi [P §3].

    Ties in delta: higher pi(a|s), then the more often rewarded case, then the more recent one.
    """
    usable = [candidate for candidate in candidates if candidate.verdict == "admissible"]

    def order(candidate: Candidate) -> tuple[float, float, int, int, int]:
        case = candidate.match.case
        return candidate.match.relevance, probability[candidate.action], case.rewarded, case.last_step, case.id

    return max(usable, key=order, default=None)


def _draw(probabilities: np.ndarray, rng: np.random.Generator, *, greedy: bool) -> int:
    """Position of the agent's action; one random number is used up in either mode."""
    drawn = int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right"))
    return int(probabilities.argmax()) if greedy else min(drawn, len(probabilities) - 1)
