"""Case-based reasoning: retrieve -> reuse -> revise -> retain, Algorithm 1 of the paper in one file.

The reasoner decides; it does not learn. Losses are the learner's, the episode loop is `cbrcore.cycle.runner`.
Without a retriever the same class is the plain neural agent.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    Reuse,
    ReusePolicy,
    RevisingAgent,
    Situation,
    Stopwatch,
    Trainable,
)
from cbrcore.types import Candidate, Decision, Observation, Provenance, StepResult

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Trace:
    """What the trainer needs of a step beyond the decision.

    Attributes:
        agent_input: what the agent saw, with its recurrent state before the step.
        situation: what the context encoder kept of the state; None without a retriever.
        matched_key: the stored key of the reused case, a constant; None where there is none.
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
        reuse_policy: what is done with retrieved cases; None if nothing is reused.
        gamma: discount, for the TD errors that retain policies may use.
        clock: where the seconds of each part are added up.
    """

    def __init__(
        self,
        agent: NeuralAgent,
        retriever: Retriever | None = None,
        retain_policy: RetainPolicy | None = None,
        reuse_policy: ReusePolicy | None = None,
        *,
        gamma: float = 0.9,
        clock: Stopwatch | None = None,
    ) -> None:
        self.agent = agent
        self.revising = agent if isinstance(agent, RevisingAgent) else None
        self.retriever = retriever
        self.retain_policy = retain_policy
        self.reuse_policy = reuse_policy
        self.gamma = gamma
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

    def begin_episode(self, *, learning: bool = False) -> None:
        """Forget the last episode's buffer T, history and recurrent state. Without `learning` all is frozen."""
        self._buffer: list[RetainItem] = []
        self._past: list[Observation] = []
        self._reuse_failed = False
        self.reuse: Reuse | None = None
        if self.reuse_policy is not None:
            self.reuse = self.reuse_policy.begin(self.retriever, learning=learning)
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
        """Retrieve and reuse: what the agent sees, and the candidates that the memory offers."""
        candidates = self.reuse.offer(observation, situation) if self.reuse else ()
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
        """Revise: the candidate that the reuse policy chooses, else the action of pi. An agent that revises
        itself has weighed the candidates: its own action is executed, whoever offered it [App. E]."""
        observation, candidates = agent_input.observation, agent_input.candidates
        probabilities = output.logits.detach().double().softmax(dim=0).cpu().numpy()  # [A]
        value, self._state = float(output.value), output.state
        agent_action = observation.admissible[_draw(probabilities, rng, greedy=greedy)]
        if self.revising is not None:
            chosen = self.revising.revise(candidates, agent_action)
        else:
            policy = dict(zip(observation.admissible, probabilities.tolist(), strict=True))
            chosen = self.reuse.choose(candidates, policy) if self.reuse else None
        action = agent_action if chosen is None or self.revising else chosen.executed
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
        keyed = chosen if chosen and chosen.seeds else None
        key = self.retriever.memory.key_of(keyed.match.case) if keyed and self.retriever else None
        return decision, Trace(agent_input, situation, key, self._keys_of(candidates) if self.revising else ())

    def _keys_of(self, candidates: Sequence[Candidate]) -> tuple[Tensor, ...]:
        """The stored key of each candidate's case, now that it is in memory."""
        if self.retriever is None:
            return ()
        cases = {candidate.match.case.id: candidate.match.case for candidate in candidates}
        keys = {number: self.retriever.memory.key_of(case) for number, case in cases.items()}
        return tuple(keys[candidate.match.case.id] for candidate in candidates)

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
        self._reuse_failed = self.reuse is not None and self.reuse.observe(decision, result)
        if self.retriever is None or self.retain_policy is None:
            return
        action = self.retriever.view(decision.action)
        key = self.retriever.keys(trace.situation, [action.seeds])[0] if action.seeds else None
        item = RetainItem(key, action, len(self._buffer), result.reward, situation=trace.situation)
        self._buffer.append(replace(item, before=trace.agent_input.observation, after=result.observation))

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
                self.retriever.memory.add(item, origin, step=env_steps)
                self._buffer[item.step] = replace(item, retained=True)
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
            (situation, seeds)
            for player, observation, situation in together
            for seeds in (player.reuse.asks(observation) if player.reuse else ())
        )
    inputs = [player.consider(observation, situation) for player, observation, situation in together]
    with clock.part("agent"), torch.no_grad():
        outputs = agent.policy(inputs)
    return [
        player.conclude(agent_input, output, situation, rng, greedy=greedy)
        for (player, _, situation), agent_input, output in zip(together, inputs, outputs, strict=True)
    ]


def _draw(probabilities: np.ndarray, rng: np.random.Generator, *, greedy: bool) -> int:
    """Position of the agent's action; one random number is used up in either mode."""
    drawn = int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right"))
    return int(probabilities.argmax()) if greedy else min(drawn, len(probabilities) - 1)
