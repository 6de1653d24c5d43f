"""What the model reads: observation, last steps, and what the case memory retrieved, as one text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cbrcore import Candidate, Observation

from cbr_llm.config import LlmConfig

Step = tuple[str | None, str]
"""The command that led to an observation (None: it was the first), and the first line of the game's answer."""

UNUSABLE = ("failed", "solved")
"""Verdicts on candidates that this episode has refuted."""


def step_of(observation: Observation) -> Step:
    """What is remembered of an observation."""
    lines = [line.strip() for line in observation.feedback.splitlines() if line.strip()]
    return observation.last_action, lines[0] if lines else ""


def case_lines(candidates: Sequence[Candidate], config: LlmConfig) -> tuple[str, ...]:
    """Of the retrieved cases the most relevant ones, each said once."""
    usable = [candidate for candidate in candidates if candidate.verdict not in UNUSABLE]
    usable.sort(key=lambda candidate: (-candidate.match.relevance, candidate.match.case.id))
    lines = (
        config.case_template.format(
            case=candidate.match.case.text,
            command=candidate.action.text,
            relevance=f"{candidate.match.relevance:.2f}",
        )
        for candidate in usable
    )
    return tuple(dict.fromkeys(lines))[: config.cases]


@dataclass(frozen=True)
class Prompt:
    """The parts of a prompt, so that it can be made shorter.

    Attributes:
        cases: what is said of each, the most relevant first.
        steps: before this observation, oldest first.
    """

    observation: Observation
    cases: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()

    def text(self, template: str) -> str:
        """As the model reads it."""
        seen = self.observation
        told = [f"> {command}\n{answer}\n" if command else f"{answer}\n" for command, answer in self.steps]
        told += [f"> {seen.last_action}\n"] if seen.last_action and self.steps else []
        views = dict.fromkeys(text.strip() for text in (seen.feedback, seen.description))
        return template.format(
            cases="".join(self.cases),
            history="".join(told),
            observation="\n".join(view for view in views if view),
            feedback=seen.feedback.strip(),
            description=seen.description.strip(),
            inventory=seen.inventory.strip(),
            commands="\n".join(action.text for action in seen.admissible),
        )

    def shorter(self) -> Iterator[Prompt]:
        """It, and ever shorter ones: without the oldest steps, then without the least relevant cases."""
        for first in range(len(self.steps) + 1):
            yield replace(self, steps=self.steps[first:])
        for last in reversed(range(len(self.cases))):
            yield replace(self, steps=(), cases=self.cases[:last])


def fitting(
    prompt: Prompt, template: str, tokens_of: Callable[[str], list[int]], longest: int | None
) -> list[int]:
    """The tokens of the longest prompt of at most `longest` tokens; if even the shortest is longer, its end."""
    tokens: list[int] = []
    for each in prompt.shorter():
        tokens = tokens_of(each.text(template))
        if longest is None or len(tokens) <= longest:
            return tokens
    return tokens[-longest:] if longest else tokens
