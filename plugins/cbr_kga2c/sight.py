"""What can be an object in a state: the graph mask, and the admissible commands as nodes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cbrcore.types import SLOT, Action, Observation, StateGraph

OBJECT = "something"
"""What a template is read with in the place of an object."""


class Command(NamedTuple):
    """An admissible command as the decoders give it: a template, and of each object its row among the nodes."""

    template: str
    objects: tuple[int, ...]


class Sight(NamedTuple):
    """The graph mask of a state. What has no node here cannot be decoded.

    Attributes:
        graph: the state graph; an object of an admissible command that it lacks is a node without edges.
        commands: the admissible commands, in their order.
    """

    graph: StateGraph
    commands: tuple[Command, ...]

    @property
    def valid(self) -> list[int]:
        """The rows of the nodes that are an object of an admissible command, in order."""
        return sorted({row for command in self.commands for row in command.objects})


def sight(observation: Observation) -> Sight:
    """What is in the state graph, and in sight."""
    graph, admissible = observation.graph, observation.admissible
    objects = [objects_of(action, graph) for action in admissible]
    lacking = {name for names in objects for name in names if name not in graph.index}
    if lacking:
        graph = StateGraph.of(graph.triples, {*graph.nodes, *lacking})
    rows = (tuple(graph.index[name] for name in names) for names in objects)
    return Sight(
        graph, tuple(Command(action.template, each) for action, each in zip(admissible, rows, strict=True))
    )


def objects_of(action: Action, graph: StateGraph) -> Sequence[str]:
    """The nodes that an action's entities mean, slot by slot: the node of that name, else the seed in its place
    ("lantern" means "brass lantern" on Jericho), else the entity itself."""
    if len(action.seeds) != len(action.entities):
        return action.entities
    pairs = zip(action.entities, action.seeds, strict=True)
    return [entity if entity in graph.index else seed for entity, seed in pairs]


def spoken(template: str) -> str:
    """The text by which a template is read: "put something on something"."""
    return template.replace(SLOT, OBJECT)
