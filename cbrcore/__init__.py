"""cbr: case-based reasoning agents for text games. The names below are the contract for authors and scripts.

They are imported when they are used: ``import cbrcore`` costs nothing, and a plugin that only declares its parts
imports neither pydantic nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "config": (
        "ComponentConfig", "MemoryConfig", "NestedPart", "NoSettings", "Part", "ReuseConfig", "Settings",
        "TrainingConfig", "cache_dir", "expand_path",
    ),
    "cycle.reasoner": ("CaseBasedReasoner", "Trace"), "cycle.retriever": ("Retriever",),
    "errors": ("CbrError", "GameError", "ModelError", "RunFailed", "closest", "suggest"),
    "hookspecs": ("API_VERSION", "hookimpl"),
    "interfaces": (
        "AgentInput", "AgentState", "Build", "CaseStore", "ChecksRecipe", "Column", "ConcurrentEnvironment",
        "ContextEncoder", "Ended", "Environment", "Fault", "Figure", "Finding", "HasOverview", "Job",
        "KeepsState", "KeyIndex", "Keys", "KnowsPlaces", "Launcher", "Learner", "Memory", "NeuralAgent",
        "PairFeature", "Places", "PlacesObjects", "PolicyOutput", "Pretraining", "Quantizer", "Recorder",
        "ReportedRun", "ReportsMetrics", "RetainItem", "RetainPolicy", "Reuse", "ReusePolicy", "RevisingAgent",
        "Scene", "Section", "Situation", "Stopwatch", "StoredCases", "Table", "TakesFeatures", "TellsFacts",
        "TellsHandicaps", "TellsPlaces", "TextEncoder", "Trial", "ViewsActions",
    ),
    "plugins": ("load_plugins",),
    "recipe": ("load_recipe",),
    "registry": ("Component", "Registrar"),
    "rng": ("Streams", "derive_seed"),
    "types": (
        "SLOT", "Action", "Candidate", "Case", "Decision", "Ending", "EntityTuple", "Episode", "Fingerprint",
        "Match", "Observation", "Provenance", "StateGraph", "StepResult", "Transition", "Triple", "arity", "fill",
    ),
}  # fmt: skip
"""Module -> the public names in it."""
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

_DOOR = ("Run", "open", "run")
"""How scripts and notebooks come in; where these are stands in the table of defaults."""

__all__ = ["__version__", *sorted([*_MODULE_OF, *_DOOR])]

if TYPE_CHECKING:
    from cbrcore.config import *  # noqa: F403
    from cbrcore.cycle.reasoner import *  # noqa: F403
    from cbrcore.cycle.retriever import *  # noqa: F403
    from cbrcore.errors import *  # noqa: F403
    from cbrcore.hookspecs import *  # noqa: F403
    from cbrcore.interfaces import *  # noqa: F403
    from cbrcore.plugins import load_plugins as load_plugins
    from cbrcore.recipe import load_recipe as load_recipe
    from cbrcore.registry import *  # noqa: F403
    from cbrcore.rng import *  # noqa: F403
    from cbrcore.types import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        module = import_module(f"{__name__}.recipe.model").DOOR
    elif name in _MODULE_OF:
        module = f"{__name__}.{_MODULE_OF[name]}"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
