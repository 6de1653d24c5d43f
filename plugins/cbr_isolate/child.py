"""The process of an isolated environment: builds it from its component, and does what it is asked to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cbr_isolate.plain import action_of, packed, unpacked
from cbr_isolate.protocol import Message
from cbr_isolate.worker import Announce, work
from cbrcore import Build, CbrError, Environment, KnowsPlaces, Part, derive_seed, load_plugins
from cbrcore.interfaces import KeepsState, KnowsContents, PlaysSlowly, ReportsMetrics, TellsPlaces
from cbrcore.recipe.model import Components
from cbrcore.registry import Registry


class Desk:
    """One environment.

    Args:
        request: `files` of loose plugins, `part` as a recipe has it, and the plain fields of `Build`.
    """

    def __init__(self, request: Message) -> None:
        registry = load_plugins(files=request["files"]).registry
        part = Components(registry, {})("environment", "environment", request["part"])
        recipe_dir, cache_dir = (Path(request[name]) for name in ("recipe_dir", "cache_dir"))
        build = Build(request["device"], request["seed"], recipe_dir, cache_dir)
        made: Environment = built(registry, "environment", part, build)
        self._calls: dict[str, Callable[..., Any]] = {
            "splits": lambda: list(made.splits()),
            "games": lambda split: list(made.games(split)),
            "game_info": lambda game: dict(made.game_info(game)),
            "handicaps": lambda: dict(made.handicaps),
            "reset": made.reset,
            "step": lambda action: made.step(action_of(action)),
            "close": made.close,
        }
        self._calls |= optional(made)
        self._calls["abilities"] = lambda: sorted(self._calls)

    def call(self, request: Message) -> Message:
        """What the environment answers; a `CbrError` of its own is an answer too."""
        try:
            return {"value": packed(self._calls[request["name"]](*request["arguments"]))}
        except CbrError as error:
            return {"raised": type(error).__name__, "message": error.message, "hint": error.hint}


def optional(made: Environment) -> Mapping[str, Callable[..., Any]]:
    """What only some environments can do."""
    found: dict[str, Callable[..., Any]] = {}
    if isinstance(made, KnowsPlaces):
        found["object_places"] = lambda split: {name: sorted(at) for name, at in made.object_places(split).items()}
    if isinstance(made, KnowsContents):
        found["content"] = made.content
    if isinstance(made, TellsPlaces):
        found["places"] = lambda seen: made.places(unpacked(seen))
    if isinstance(made, PlaysSlowly):
        found["random_passes"] = lambda: made.random_passes
    if isinstance(made, ReportsMetrics):
        found["metrics"] = lambda: dict(made.metrics())
    if isinstance(made, KeepsState):
        found |= {"state": lambda: dict(made.state()), "load_state": made.load_state}
    return found


def built(registry: Registry, path: str, part: Part, build: Build) -> Any:
    """The part, and the parts within it, as a run builds them; `path` names its random stream."""

    def make(setting: str, build: Build) -> Any:
        return built(registry, f"{path}.{setting}", getattr(part.settings, setting), build)

    component = next(each for each in registry if each.qualified == part.use)
    factory = component.load_factory()
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(derive_seed(build.seed, f"init:{path}"))
    return factory(part.settings, Build(**{**vars(build), "make": make}))


def open_desk(request: Message, announce: Announce) -> object:
    return Desk(request)


if __name__ == "__main__":
    work(open_desk, ("call",))
