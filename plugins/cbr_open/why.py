"""The answer to "why did it do that?": of a step that was played, as data, as text, and as a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cbr_open.compared import explained, policy_of
from cbr_open.explanations import Explanation, decision_lines
from cbrcore import Action, CbrError, Decision, Observation, StepResult
from cbrcore.errors import printable

if TYPE_CHECKING:
    from cbrcore import Transition
    from cbrcore.cycle.reasoner import CaseBasedReasoner


@dataclass(frozen=True, repr=False)
class Why:
    """Why a step was taken.

    Attributes:
        observation: what was seen before.
        decision: the record.
        explanation: the record in words and plain data: what was retrieved, reused, revised, and the reason.
        probabilities: pi of every admissible action.
        result: what came of it.
    """

    observation: Observation
    decision: Decision
    explanation: Explanation
    probabilities: Mapping[Action, float]
    result: StepResult

    @classmethod
    def of(cls, step: Transition, reasoner: CaseBasedReasoner) -> Why:
        """The answer for a step that this reasoner took; it is asked for what the record does not hold.

        Raises:
            CbrError: the step was taken by somebody else.
        """
        if step.trace is None:
            raise CbrError(
                "this step tells nothing of its decision", hint="ask of a step of run.play() or run.plays()"
            )
        policy = policy_of(reasoner, step.trace)
        told = explained(step.decision, step.trace, reasoner, policy)
        return cls(step.observation, step.decision, told, policy, step.result)

    def __repr__(self) -> str:
        return f"Why({self.explanation.action!r}, {self.explanation.source}: {self.explanation.reason})"

    def __str__(self) -> str:
        """As ``cbr play`` says it."""
        return "\n".join(printable(text) for _, text in decision_lines(self.explanation))

    def _repr_html_(self) -> str:
        from cbr_open.notebook import why_html

        return why_html(self)
