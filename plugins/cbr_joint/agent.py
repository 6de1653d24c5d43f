"""The joint variant of an agent [P App. E].

candidates -> action selector of each admissible action -> beside the vector from which the agent scores it.
The agent chooses; the reasoner reuses nothing by rule (`revise`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cbr_joint.config import JointConfig
from cbr_joint.selector import ActionSelector
from cbr_nn.memo import Memo
from cbr_nn.texts import required_encoder
from cbr_reuse.most_relevant import most_relevant
from cbrcore import Action, Build, Candidate, CbrError, TakesFeatures, TellsHandicaps
from cbrcore.interfaces import AgentInput, AgentState, PolicyOutput


class JointAgent(nn.Module):
    """pi(a|s) and V(s) of another agent, which is told what the case memory offers.

    Attributes:
        handicaps: those of the other agent.
    """

    def __init__(self, config: JointConfig, build: Build) -> None:
        super().__init__()
        self.config = config
        self.device = torch.device(build.device)
        self.selector = ActionSelector(required_encoder(build, "joint"), config.width)
        self.agent = build.make("agent", replace(build, action_features=self.selector.dim))
        if not isinstance(self.agent, TakesFeatures) or self.agent.action_features != self.selector.dim:
            raise CbrError(
                f"{config.agent.use} cannot be told about candidates: it takes in no features of actions",
                hint="use cbr_text/text, cbr_tpc/tpc, cbr_kga2c/scorer or cbr_bike/bike",
            )
        self.handicaps = dict(self.agent.handicaps) if isinstance(self.agent, TellsHandicaps) else {}
        self.to(self.device)
        self._memo = Memo(self.selector.parameters())

    def __repr__(self) -> str:
        return f"JointAgent(width={self.config.width}, {self.agent!r})"

    def initial_state(self) -> AgentState:
        """The other agent's; what was encoded in the last episode is forgotten."""
        self._memo.clear()
        return self.agent.initial_state()

    def policy(self, inputs: Sequence[AgentInput]) -> list[PolicyOutput]:
        """The other agent's outputs, given the selector [A, e] of each input."""
        selectors = [self._select(item) for item in inputs]
        told = [replace(item, action_features=rows) for item, rows in zip(inputs, selectors, strict=True)]
        outputs: list[PolicyOutput] = self.agent.policy(told)
        return outputs

    def revise(self, candidates: Sequence[Candidate], drawn: Action) -> Candidate | None:
        """Of the candidates that offered the action which the agent has chosen, the most relevant one."""
        return most_relevant([candidate for candidate in candidates if candidate.action == drawn], {drawn: 1.0})

    def _select(self, item: AgentInput) -> Tensor:
        """[A, e]. A candidate that failed in this episode, or is solved, is not offered again (`retry_failed`)."""
        offered = [row for row, each in enumerate(item.candidates) if each.verdict not in ("failed", "solved")]
        texts = [action.text for action in item.observation.admissible]
        vectors = self._memo.rows(self.selector.read, [*texts, *(item.candidates[i].action.text for i in offered)])
        actions, candidates = torch.split(vectors, [len(texts), len(offered)])  # [A, w], [C, w]
        selected: Tensor = self.selector(actions, candidates, self._relevance(item)[offered])
        return selected

    def _relevance(self, item: AgentInput) -> Tensor:
        """[C] of all candidates; with gradients to the retriever where the learner gives them."""
        if item.relevance is not None:
            return item.relevance
        return torch.tensor([candidate.match.relevance for candidate in item.candidates], device=self.device)
