"""Results of commands, kept in memory: a game that begins in the same way each time plays in the same way.

A node stands for the commands since the start, so an answer is exact whatever the game keeps to itself. A known
way is played without the engine and without a search; where the way is new, the engine is sent after, with all
commands at once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cbrcore.types import StepResult

T = TypeVar("T", bound=Hashable)


@dataclass(eq=False)
class Node:
    """A state, as what led to it.

    Attributes:
        result: the observation, with reward and ending; of the first one there is only the observation.
        sent: the command that the engine got; None for the start, and where a command was refused.
        room: the room's node in the state graph; None where it was not looked at.
        things, line: what is in sight, and how long a line may be (see `Play`).
    """

    result: StepResult
    sent: str | None = None
    room: str | None = None
    things: frozenset[str] = frozenset()
    line: tuple[int, int | None] = (0, None)
    after: dict[str, Node] = field(default_factory=dict)


class Transitions:
    """The ways that were gone.

    Args:
        most: nodes; when there are as many, all are forgotten.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.start: Node | None = None
        self._nodes = 0
        self._same: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"Transitions({self._nodes} of {self.most})"

    def begin(self, node: Node) -> Node | None:
        """The first state of every episode; None if nothing is remembered."""
        if not self.most:
            return None
        self.start = self.start or self._shared(node)
        return self.start

    def go(self, before: Node, command: str, node: Node) -> Node:
        """What came of a command; the node that is there already, if another player was there at the same time."""
        if command in before.after:
            return before.after[command]
        if self._nodes >= self.most:
            self.forget()
        self._nodes += 1
        before.after[command] = self._shared(node)
        return before.after[command]

    def forget(self) -> None:
        """Start anew. Whoever is on the way goes on from where he is; nobody comes there again."""
        self._nodes, self.start = 0, None
        self._same.clear()

    def _shared(self, node: Node) -> Node:
        """Equal texts, actions and graphs are kept once."""
        seen = node.result.observation
        same = replace(
            seen,
            description=self._once(seen.description),
            inventory=self._once(seen.inventory),
            admissible=self._once(seen.admissible),
            graph=self._once(seen.graph),
        )
        return replace(node, result=replace(node.result, observation=same), things=self._once(node.things))

    def _once(self, value: T) -> T:
        kept: T = self._same.setdefault(value, value)
        return kept
