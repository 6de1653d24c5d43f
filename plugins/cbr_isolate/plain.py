"""Observations, results, maps and actions as plain data, for a pipe: what comes out is equal to what went in.

What an environment of others gave is passed on as it is: it is judged where all environments are.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cbrcore.interfaces import Places
from cbrcore.types import Action, Ending, Fingerprint, Observation, StateGraph, StepResult


def packed(value: Any) -> Any:
    """Plain data for `json.dumps`; an observation, a result or a map is told by its kind."""
    if isinstance(value, Observation):
        return {"observation": _fields(value)}
    if isinstance(value, StepResult):
        return {"result": {**vars(value), "observation": packed(value.observation)}}
    if isinstance(value, Places):
        return {"places": {**vars(value), "holders": sorted(value.holders)}}
    return {"plain": value}


def unpacked(data: Any) -> Any:
    """What `packed` was given."""
    ((kind, value),) = data.items()
    if kind == "observation":
        return _observation(value)
    if kind == "result":
        ending = value["ending"]
        known = Ending(ending) if ending in tuple(Ending) else ending
        return StepResult(**{**value, "observation": unpacked(value["observation"]), "ending": known})
    if kind == "places":
        return Places(**{**value, "holders": frozenset(value["holders"])})
    return value


def action_of(data: dict[str, Any]) -> Action:
    return Action(data["text"], data["template"], tuple(data["entities"]), tuple(data["seeds"]))


def _fields(seen: Observation) -> dict[str, Any]:
    """An observation's fields, without what it keeps computed."""
    names = Observation.__dataclass_fields__
    fields = {name: value for name, value in vars(seen).items() if name in names}
    if isinstance(seen.graph, StateGraph):
        fields["graph"] = {"nodes": seen.graph.nodes, "triples": seen.graph.triples}
    return fields | {"admissible": [asdict(action) for action in seen.admissible]}


def _observation(fields: dict[str, Any]) -> Observation:
    graph = fields["graph"]
    if isinstance(graph, dict):
        graph = StateGraph(tuple(graph["nodes"]), tuple(tuple(triple) for triple in graph["triples"]))
    if isinstance(fields["fingerprint"], list):
        fields = {**fields, "fingerprint": Fingerprint(*fields["fingerprint"])}
    actions, scored = tuple(map(action_of, fields["admissible"])), tuple(fields["scored"])
    return Observation(**{**fields, "graph": graph, "admissible": actions, "scored": scored})
