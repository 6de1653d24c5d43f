"""cbr: case-based reasoning agents for text games. The names below are the contract for plugin authors."""

from cbrcore.config import ComponentConfig, NoSettings
from cbrcore.errors import CbrError
from cbrcore.hookspecs import API_VERSION, hookimpl
from cbrcore.interfaces import Build
from cbrcore.types import Action, Observation, StateGraph

__version__ = "0.1.0"
__all__ = [
    "API_VERSION",
    "Action",
    "Build",
    "CbrError",
    "ComponentConfig",
    "NoSettings",
    "Observation",
    "StateGraph",
    "__version__",
    "hookimpl",
]
