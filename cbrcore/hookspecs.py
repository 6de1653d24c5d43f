"""The hooks a plugin may implement: one per kind of part. Declare; do not build.

Each hook receives a `Registrar` and calls ``registry.add(name, factory=..., config=..., summary=...)``
with import paths as strings, so that loading a plugin imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from cbrcore.registry import Registrar

PROJECT = "cbrcore"
API_VERSION = 1
"""A plugin may state ``cbr_api_version = 1``; another number is refused."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_environments(registry: Registrar) -> None:
    """Offer environments (`cbrcore.interfaces.Environment`)."""


@hookspec
def register_text_encoders(registry: Registrar) -> None:
    """Offer frozen text encoders (`cbrcore.interfaces.TextEncoder`)."""


@hookspec
def register_context_encoders(registry: Registrar) -> None:
    """Offer context encoders (`cbrcore.interfaces.ContextEncoder`)."""


@hookspec
def register_quantizers(registry: Registrar) -> None:
    """Offer quantizers (`cbrcore.interfaces.Quantizer`)."""


@hookspec
def register_retain_policies(registry: Registrar) -> None:
    """Offer retain policies (`cbrcore.interfaces.RetainPolicy`)."""


@hookspec
def register_agents(registry: Registrar) -> None:
    """Offer neural agents (`cbrcore.interfaces.NeuralAgent`)."""


@hookspec
def register_launchers(registry: Registrar) -> None:
    """Offer launchers (`cbrcore.interfaces.Launcher`): where the runs of a sweep execute."""
